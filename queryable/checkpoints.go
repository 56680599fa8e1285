package queryable

import (
	"strings"

	"github.com/gofiber/fiber/v2"
)

// listCheckpoints is GET /api/v1/checkpoints.
func (a *API) listCheckpoints(c *fiber.Ctx) error {
	return read(a, c, "", func(k *call) (any, Answer, error) {
		cs, err := a.b.Checkpoints(k.ctx)
		for i := range cs {
			cs[i].tidy()
		}
		epoch, _, _ := a.b.Changed()
		return map[string][]Checkpoint{"checkpoints": list(cs)}, Answer{Epoch: epoch}, err
	})
}

func (p *Checkpoint) tidy() { p.Created, p.Views = p.Created.UTC(), list(p.Views) }

// takeCheckpoint is POST /api/v1/checkpoints. It goes on when its client
// leaves: a checkpoint is not the client's alone.
func (a *API) takeCheckpoint(c *fiber.Ctx) error {
	var savepoint *string
	if len(c.Request().Body()) > 0 {
		if err := ReadBody(c, Members{"savepoint": &savepoint}); err != nil {
			return err
		}
	}
	name := ""
	if savepoint != nil {
		if name = *savepoint; name == "" {
			return Errorf(BadRequest, "the name of a savepoint is empty; leave it out for a plain checkpoint")
		}
	}
	k := a.begin(c, a.o.StreamTime, false)
	defer k.end()
	p, err := a.b.TakeCheckpoint(k.ctx, name)
	if err != nil {
		return k.fault(err)
	}
	p.tidy()
	a.answerHeaders(c, Answer{Epoch: p.Epoch})
	return c.Status(fiber.StatusCreated).JSON(p)
}

// checkpointID is the {id} of a path: a number, or a savepoint's name.
func checkpointID(c *fiber.Ctx) (string, error) {
	id, err := param(c, "id")
	if err != nil {
		return "", err
	}
	if id == "" || len(id) > 200 || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\\\x00") {
		return "", Errorf(NotFound, "there is no checkpoint %s", clip(id))
	}
	return id, nil
}

// dropSavepoint is DELETE /api/v1/checkpoints/{id}. It goes on when its client
// leaves.
func (a *API) dropSavepoint(c *fiber.Ctx) error {
	id, err := checkpointID(c)
	if err != nil {
		return err
	}
	k := a.begin(c, a.o.StreamTime, false)
	defer k.end()
	if err := a.b.DropSavepoint(k.ctx, id); err != nil {
		return k.fault(err)
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// oneCheckpoint is GET /api/v1/checkpoints/{id}: its manifest.
func (a *API) oneCheckpoint(c *fiber.Ctx) error {
	id, err := checkpointID(c)
	if err != nil {
		return err
	}
	k := a.begin(c, a.o.ReadTime, false)
	defer k.end()
	text, err := a.b.Manifest(k.ctx, id)
	if err != nil {
		return k.fault(err)
	}
	c.Set(fiber.HeaderContentType, mediaJSON)
	return c.Send(text)
}
