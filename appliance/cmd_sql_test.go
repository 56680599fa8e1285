//go:build duckdb_arrow

package appliance

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSQLStatus: an answer that is not whole has a status of its own, whatever its form,
// and standard error says why.
func TestSQLStatus(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body := `{"columns":[{"name":"n","type":"BIGINT"}],"rows":[[1]],"epoch":7`
		if strings.Contains(string(b), "young") {
			w.Header().Set("Weir-Backfilling", "young%20one,other")
			body += `,"backfilling":["young one","other"]`
		}
		if strings.Contains(string(b), "many") {
			w.Header().Set("Weir-Truncated", "1")
			w.Header().Set("Weir-Rows-Cut", "1")
			body += `,"truncated":true,"rows_cut":true`
		}
		if strings.Contains(string(b), "part") {
			w.Header().Set("Weir-Truncated", "1")
			w.Header().Set("Weir-Partial", "s")
			body += `,"truncated":true,"partial":["s"]`
		}
		if strings.Contains(string(b), "bad") {
			w.Header().Set("Weir-Undecoded", "2")
			body += `,"undecoded":2`
		}
		if strings.Contains(string(b), "wrong") {
			w.WriteHeader(http.StatusBadRequest)
			body = `{"error":{"code":"bad_request","message":"it is wrong"`
		}
		if r.Header.Get("Accept") == "text/csv" && !strings.Contains(string(b), "wrong") {
			_, _ = io.WriteString(w, "n\n1\n")
			return
		}
		_, _ = io.WriteString(w, body+strings.Repeat("}", strings.Count(body, "{")-strings.Count(body, "}")))
	}))
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	for sql, want := range map[string]struct {
		code int
		says []string
	}{
		"FROM v":             {exitOK, nil},
		"FROM young":         {exitPartial, []string{"view young one is not whole yet", "view other is not whole yet"}},
		"FROM bad":           {exitOK, []string{"2 of the newest records could not be decoded and are not shown"}},
		"FROM many":          {exitPartial, []string{"cut at the limit on rows"}},
		"FROM part":          {exitPartial, []string{"only the newest 1,000 records of source s"}},
		"FROM many, young":   {exitPartial, []string{"cut at the limit on rows", "view young one is not whole yet"}},
		"FROM wrong":         {exitError, []string{"it is wrong"}},
		"FROM wrong, young!": {exitError, []string{"it is wrong"}},
	} {
		for _, form := range []string{"table", "json", "csv"} {
			code, out, errs := weir("sql", "--addr", addr, "--format", form, sql)
			if code != want.code || (code == exitError) == strings.Contains(out, "1") {
				t.Errorf("%s as %s: exit status %d, want %d: %s%s", sql, form, code, want.code, out, errs)
			}
			for _, words := range want.says {
				if !strings.Contains(errs, words) {
					t.Errorf("%s as %s does not say %q: %s", sql, form, words, errs)
				}
			}
			if want.says == nil && errs != "" {
				t.Errorf("%s as %s says %s", sql, form, errs)
			}
		}
	}
	// Where both go to one place, as on a terminal, the table has said it.
	for _, form := range []string{"table", "csv"} {
		both, err := os.Create(filepath.Join(t.TempDir(), form))
		if err != nil {
			t.Fatal(err)
		}
		code := Main([]string{"sql", "--addr", addr, "--format", form, "FROM many, young"}, strings.NewReader(""), both, both)
		if err := both.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(both.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range []string{"view young one is not whole yet", "was cut at"} {
			if n := strings.Count(string(text), words); n != 1 || code != exitPartial {
				t.Errorf("%s to one place: exit status %d, %q %d times: %s", form, code, words, n, text)
			}
		}
	}
}
