package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A tape is record batches that were encoded beforehand, so that writing them at
// a rate takes next to no processor time from what is measured.
type tape struct {
	client  *kgo.Client
	broker  *kgo.Broker
	topic   kmsg.ProduceRequestTopic
	batches [][]byte // for any partition
}

// Of a tape: it repeats after two million events.
const (
	batchEvents = 512
	tapeBatches = 4096
)

func newTape(ctx context.Context, addr, topic string) (*tape, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	t := &tape{client: client, topic: kmsg.NewProduceRequestTopic()}
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = append(ask.Topics, kmsg.MetadataRequestTopic{Topic: &topic})
	meta, err := ask.RequestWith(ctx, client)
	if err != nil {
		client.Close()
		return nil, err
	}
	t.topic.Topic, t.topic.TopicID = topic, meta.Topics[0].TopicID
	t.broker = client.Broker(int(meta.Brokers[0].NodeID))
	rng := rand.New(rand.NewPCG(3, 4))
	start := time.Now()
	for i := range tapeBatches {
		t.batches = append(t.batches, encode(rng, i*batchEvents, start))
	}
	return t, nil
}

// write appends batches at.. of the tape, one partition after the other, and
// returns the offset of each batch.
func (t *tape) write(ctx context.Context, first, n int, now time.Time) ([]int64, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = 1, 10_000
	topic := t.topic
	for p := range min(n, partitions) {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition = int32((first + p) % partitions)
		part.Records = stamp(t.batches[(first+p)%tapeBatches], now)
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := t.broker.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(topic.Partitions))
	for _, part := range resp.(*kmsg.ProduceResponse).Topics[0].Partitions {
		if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
			return nil, fmt.Errorf("partition %d: %w", part.Partition, err)
		}
		for i := range topic.Partitions {
			if topic.Partitions[i].Partition == part.Partition {
				offsets[i] = part.BaseOffset
			}
		}
	}
	return offsets, nil
}

// encode makes a record batch of Kafka's second format, without a producer.
func encode(rng *rand.Rand, first int, start time.Time) []byte {
	b := make([]byte, 61, 61+batchEvents*224)
	b[16] = 2                                                 // magic
	binary.BigEndian.PutUint32(b[12:], ^uint32(0))            // leader epoch
	binary.BigEndian.PutUint32(b[23:], uint32(batchEvents-1)) // last offset delta
	for at := 43; at < 57; at++ {
		b[at] = 0xff // producer id, its epoch, sequence
	}
	binary.BigEndian.PutUint32(b[57:], batchEvents)
	var rec []byte
	for i := range batchEvents {
		rec = append(rec[:0], 0, 0) // attributes, timestamp delta
		rec = binary.AppendVarint(rec, int64(i))
		rec = binary.AppendVarint(rec, -1) // no key
		value := event(rng, first+i, start)
		rec = binary.AppendVarint(rec, int64(len(value)))
		rec = append(append(rec, value...), 0) // no headers
		b = append(binary.AppendVarint(b, int64(len(rec))), rec...)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	return b
}

// stamp sets the time of a batch, and its checksum.
func stamp(b []byte, now time.Time) []byte {
	binary.BigEndian.PutUint64(b[27:], uint64(now.UnixMilli()))
	binary.BigEndian.PutUint64(b[35:], uint64(now.UnixMilli()))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
