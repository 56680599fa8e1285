package appliance

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

type resetCmd struct {
	Data string `type:"path" required:"" help:"Data directory to delete."`
	Yes  bool   `help:"Do not ask."`
}

func (resetCmd) Help() string {
	return "Deletes the state, the checkpoints, the token and the demo's topics of a data directory, after it was asked and answered yes. " +
		"Exported views stay, and so does all that is not Weir's.\n\nExit status: 0 deleted, 1 an error or another answer, 2 wrong usage."
}

// parts are what Weir makes in a data directory.
func parts() []string {
	return []string{stateDir, checkpointsDir, exportsDir, brokerDir, inflightFile, identityFile, "tmp", "token"}
}

func (c *resetCmd) Run(s streams) error {
	if _, err := os.Stat(c.Data); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist", c.Data)
	}
	var there []string
	for _, p := range parts() {
		if _, err := os.Lstat(filepath.Join(c.Data, p)); err == nil {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return fmt.Errorf("%s holds nothing of Weir's", c.Data)
	}
	if slices.Contains(there, stateDir) {
		lock, err := vfs.Default.Lock(filepath.Join(c.Data, stateDir, "lock"))
		if err != nil {
			return fmt.Errorf("%s is in use: stop the appliance that runs on it first", c.Data)
		}
		defer lock.Close()
	}
	if !c.Yes {
		fmt.Fprintf(s.out, "Delete %s of %s? Type yes: ", strings.Join(there, ", "), c.Data)
		answer, _ := bufio.NewReader(s.in).ReadString('\n')
		if strings.TrimSpace(answer) != "yes" {
			return errors.New("nothing was deleted")
		}
	}
	for _, p := range there {
		if err := os.RemoveAll(filepath.Join(c.Data, p)); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	return nil
}
