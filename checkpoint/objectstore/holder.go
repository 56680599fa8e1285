package objectstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// An Owner says who holds a [Lease]. Two processes never run with the same ID,
// Host and Dir at the same time, or ID is empty.
type Owner struct {
	ID   string `json:"id,omitempty"`
	Host string `json:"host"`
	Dir  string `json:"dir,omitempty"` // its data directory
	What string `json:"what"`          // program, for people
}

func (o Owner) String() string {
	if o.Host == "" {
		return o.What
	}
	if o.Dir == "" {
		return fmt.Sprintf("%s on %s", o.What, o.Host)
	}
	return fmt.Sprintf("%s on %s, data directory %s", o.What, o.Host, o.Dir)
}

// A HeldError says that another holds a [Lease].
type HeldError struct {
	Place string
	By    Owner
	Since time.Time
	Lost  bool // it was ours before

	quiet bool // nobody has seen it renewed yet
}

func (e *HeldError) Error() string {
	if e.Lost {
		return fmt.Sprintf("%s has taken %s over at %s", e.By, e.Place, e.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s is held by %s since %s", e.Place, e.By, e.Since.Format(time.RFC3339))
}

// leaseText is the object of a [Lease].
type leaseText struct {
	Owner
	Format string    `json:"format"`
	Nonce  string    `json:"nonce"`
	Since  time.Time `json:"since"`
	Beat   int64     `json:"beat"` // rises with every renewal
}

const leaseFormat = "weir-lock"

func (l *Lease) parse(body []byte) (*leaseText, error) {
	t := &leaseText{}
	if err := json.Unmarshal(body, t); err != nil || t.Format != leaseFormat {
		return nil, &Error{Op: "read", Bucket: l.fs.bucket, Key: l.key, Err: errors.New("this is no lock of Weir"), Do: "give another prefix, or remove the object when you know what it is"}
	}
	return t, nil
}
