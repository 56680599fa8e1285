package queryable

import (
	"errors"
	"fmt"
	"io"
)

// Write writes rows to w in the media type that the SQL route would answer with
// (application/json, application/x-ndjson, text/csv or
// application/vnd.apache.arrow.stream), and releases them. file is needed for the
// last. After an error w may hold a part.
func Write(w io.Writer, rows *Rows, media string, file FileForm) error {
	defer rows.Records.Release()
	var src source
	switch media {
	case mediaArrow:
		src = &arrowSource{rows: rows, file: file}
	case mediaCSV:
		src = &textSource{rows: rows, layout: &csvLayout{rows: rows}}
	case mediaLines:
		src = &textSource{rows: rows, layout: &lineLayout{rows: rows}}
	case mediaJSON:
		src = &textSource{rows: rows, layout: &jsonLayout{rows: rows}}
	default:
		return fmt.Errorf("there is no form %q of rows", media)
	}
	var buf []byte
	for {
		var err error
		buf, err = src.next(buf[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, werr := w.Write(buf); werr != nil {
			return fmt.Errorf("write rows: %w", werr)
		}
		if err != nil {
			return nil
		}
	}
}
