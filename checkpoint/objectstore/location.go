package objectstore

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Scheme begins the text of a [Location].
const Scheme = "s3://"

// A Location is a bucket and a prefix of the names in it, written
// s3://bucket/prefix?endpoint=https://host:9000&region=eu-central-1.
type Location struct {
	Bucket string
	Prefix string // without slashes at its ends; may be empty
	// Endpoint is the store's URL, http or https, and empty for Amazon's.
	Endpoint string
	Region   string // empty: the environment's, or what the store says
}

// IsLocation tells a Location from a directory of this machine.
func IsLocation(s string) bool { return strings.HasPrefix(s, Scheme) }

// ParseLocation reads the text of a Location.
func ParseLocation(s string) (Location, error) {
	wrong := func(format string, args ...any) (Location, error) {
		return Location{}, fmt.Errorf("%s: %s; write s3://bucket/prefix, for a store other than Amazon's with ?endpoint=https://host:port", redact(s), fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Fragment != "" {
		return wrong("this is no place in object storage")
	}
	if u.User != nil {
		return wrong("credentials are not part of it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	if u.Port() != "" {
		return wrong("%s is no bucket", u.Host)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("%v", err)
	}
	l := Location{Bucket: u.Host, Prefix: key(u.Path)}
	for name, values := range q {
		switch {
		case len(values) != 1:
			return wrong("%s is given %d times", name, len(values))
		case name == "endpoint":
			l.Endpoint = values[0]
		case name == "region":
			l.Region = values[0]
		default:
			return wrong("there is no setting %s", name)
		}
	}
	if l.Endpoint != "" {
		e, err := url.Parse(l.Endpoint)
		if err != nil || !slices.Contains([]string{"http", "https"}, e.Scheme) || e.Host == "" || e.User != nil || strings.Trim(e.Path, "/") != "" || e.RawQuery != "" {
			return wrong("the endpoint is no URL such as https://host:9000")
		}
	}
	return l, nil
}

// String is the text of the Location.
func (l Location) String() string {
	q := url.Values{}
	if l.Endpoint != "" {
		q.Set("endpoint", l.Endpoint)
	}
	if l.Region != "" {
		q.Set("region", l.Region)
	}
	u := url.URL{Scheme: "s3", Host: l.Bucket, Path: l.Prefix, RawQuery: q.Encode()}
	return u.String()
}

// redact leaves out what stands where credentials do: errors go to logs.
func redact(s string) string {
	if rest, ok := strings.CutPrefix(s, Scheme); ok {
		if _, host, ok := strings.Cut(rest, "@"); ok {
			return Scheme + "…@" + host
		}
	}
	return s
}

// key is the object of a name: slash-separated, without slashes at its ends,
// and "" for the bucket.
func key(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
