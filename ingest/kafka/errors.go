package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	kafkago "github.com/segmentio/kafka-go"
)

// ErrClosed is what Reader.Next returns after Close.
var ErrClosed = errors.New("kafka reader is closed")

// ConnectError says that no broker could be reached. It is worth a retry.
type ConnectError struct {
	Brokers []string
	Err     error
}

func (e *ConnectError) Error() string {
	return fmt.Sprintf("reach kafka at %s: %v%s", strings.Join(e.Brokers, ","), e.Err, hint(e.Err))
}

func (e *ConnectError) Unwrap() error { return e.Err }

// hint says what usually stands behind a failure to connect.
func hint(err error) string {
	var unknown x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return " (is the broker running there?)"
	case errors.As(err, &unknown):
		return " (give the broker's certificate authority)"
	case errors.As(err, &notTLS):
		return " (the listener does not speak TLS)"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return " (the listener may expect TLS, or SASL, or neither)"
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return " (check the broker's name)"
	}
	return ""
}

// AuthError says that the broker refused who we are, or what we may read.
// It is worth a retry: credentials and rights are changed from outside.
type AuthError struct {
	Brokers []string
	Topic   string // "" when the connection itself was refused
	Err     error
}

func (e *AuthError) Error() string {
	if e.Topic != "" {
		return fmt.Sprintf("kafka at %s does not let this user read topic %q: %v (grant it READ and DESCRIBE)", strings.Join(e.Brokers, ","), e.Topic, e.Err)
	}
	return fmt.Sprintf("log in to kafka at %s: %v (check the mechanism, the user and the password)", strings.Join(e.Brokers, ","), e.Err)
}

func (e *AuthError) Unwrap() error { return e.Err }

// UnknownTopicError says that there is no such topic now.
type UnknownTopicError struct {
	Brokers []string
	Topic   string
}

func (e *UnknownTopicError) Error() string {
	return fmt.Sprintf("topic %q does not exist on %s: create it, or check its name", e.Topic, strings.Join(e.Brokers, ","))
}

// OutOfRangeError says that a partition's log does not hold the offset to be
// read: it was deleted by retention, or never written to this log.
type OutOfRangeError struct {
	Topic            string
	Partition        int32
	Offset           int64 // asked for
	Earliest, Latest int64 // what the log holds: Earliest up to, not with, Latest
}

func (e *OutOfRangeError) Error() string {
	where := fmt.Sprintf("topic %q partition %d holds offsets %d to %d, not %d", e.Topic, e.Partition, e.Earliest, e.Latest, e.Offset)
	if e.Offset < e.Earliest {
		return fmt.Sprintf("%s: retention removed %d records before they were read; to go on without them, drop the views of the source, then the source, and create them again: they count what the topic holds from %d on",
			where, e.Earliest-e.Offset, e.Earliest)
	}
	return where + ": the log lost records that were read before; restore the topic, or rebuild the views from what it holds"
}

// RecreatedError says that the topic's name now belongs to another topic.
// On brokers without topic ids (before Kafka 2.8) both are zero.
type RecreatedError struct {
	Topic    string
	Old, New TopicID
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topic %q was deleted and created again (id %v became %v): its records are not those that were read so far; to read the new topic, drop the views of the source, then the source, and create them again",
		e.Topic, e.Old, e.New)
}

// DeletedError says that the topic is gone.
type DeletedError struct {
	Topic string
	ID    TopicID
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("topic %q (id %v) was deleted: drop the source, or restore the topic", e.Topic, e.ID)
}

// CorruptError says that the broker sent what is not a valid record batch.
type CorruptError struct {
	Topic     string
	Partition int32
	Offset    int64 // of the batch's first record, as far as it is known
	Err       error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("topic %q partition %d has corrupt data at offset %d: %v; check the broker's disk, and restart Weir when the batch can be read; to give up what lies before, drop the views of the source, then the source, and create them again WITH (start = …) a time after it",
		e.Topic, e.Partition, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// UnsupportedError says that the broker, or what it stores, is of a version
// that Weir can't read.
type UnsupportedError struct {
	Brokers []string
	Reason  string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("kafka at %s is not supported: %s", strings.Join(e.Brokers, ","), e.Reason)
}

// TooLargeError says that one response was over ReaderOptions.MaxResponse.
type TooLargeError struct {
	Topic       string
	Size, Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("topic %q: a response of %d bytes is over the limit of %d: a record batch is that large; raise the limit", e.Topic, e.Size, e.Limit)
}

// stops says whether an error ends a Reader.
func stops(err error) bool {
	switch err.(type) {
	case *OutOfRangeError, *RecreatedError, *DeletedError, *CorruptError, *UnsupportedError, *TooLargeError:
		return true
	}
	return false
}

// isOurs says whether an error is complete as it is: it did not come from the
// connection.
func isOurs(err error) bool {
	if stops(err) || errors.Is(err, errUnknownBroker) {
		return true
	}
	var code errorCode
	var garbled *garbledError
	return errors.As(err, &code) || errors.As(err, &garbled)
}

func connectError(brokers []string, err error) error {
	for _, code := range []kafkago.Error{kafkago.SASLAuthenticationFailed, kafkago.UnsupportedSASLMechanism, kafkago.IllegalSASLState, kafkago.ClusterAuthorizationFailed} {
		if errors.Is(err, code) {
			return &AuthError{Brokers: brokers, Err: err}
		}
	}
	return &ConnectError{Brokers: brokers, Err: err}
}

// errorCode is what the broker answers in place of data.
type errorCode int16

const (
	codeNone             errorCode = 0
	codeOffsetOutOfRange errorCode = 1
	codeCorruptMessage   errorCode = 2
	codeUnknownTopic     errorCode = 3
	codeNoLeader         errorCode = 5
	codeNotLeader        errorCode = 6
	codeTopicDenied      errorCode = 29
	codeUnsupported      errorCode = 35
	codeFencedEpoch      errorCode = 74
	codeUnknownEpoch     errorCode = 75
	codeUnknownTopicID   errorCode = 100
	codeOtherTopicID     errorCode = 103
)

func (e errorCode) Error() string {
	switch e {
	case codeUnknownTopicID:
		return "[100] unknown topic id"
	case codeOtherTopicID:
		return "[103] inconsistent topic id"
	}
	return kafkago.Error(e).Error()
}

// TopicID is the identity of a topic; zero where the broker has none.
type TopicID [16]byte

// String gives an id as Kafka's own tools print it.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }
