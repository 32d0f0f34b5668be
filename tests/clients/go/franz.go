package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ bootstrap string }

func (f franz) client(options ...kgo.Opt) (*kgo.Client, context.Context, func(), error) {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(addresses(f.bootstrap)...))...)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	return client, ctx, func() { cancel(); client.Close() }, nil
}

func (f franz) create(topic string, partitions int) error {
	client, ctx, done, err := f.client()
	if err != nil {
		return err
	}
	defer done()
	_, err = kadm.NewClient(client).CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return err
}

func (f franz) transact(id string, topic string, values [][]byte, commit bool) error {
	client, ctx, done, err := f.client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer done()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for _, value := range values {
		produced := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: value})
		if err := produced.FirstErr(); err != nil {
			return err
		}
	}
	return client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func (f franz) produce(how settings, records []record) ([]int64, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(how.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[how.codec]),
		kgo.RequiredAcks(acks[how.acks]),
	}
	if !how.idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, ctx, done, err := f.client(options...)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]*kgo.Record, 0, len(records))
	for _, one := range records {
		made := &kgo.Record{
			Partition: one.partition,
			Timestamp: time.UnixMilli(one.timestampMs),
			Key:       one.key,
			Value:     one.value,
		}
		for _, header := range one.headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: header.name, Value: header.value})
		}
		out = append(out, made)
	}
	if err := client.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(out))
	for _, made := range out {
		if how.acks == "0" {
			made.Offset = -1
		}
		offsets = append(offsets, made.Offset)
	}
	return offsets, nil
}

func (f franz) position(topic string, partition int32, start string) (int64, error) {
	if offset, given := startNumber(start, "offset"); given {
		return offset, nil
	}
	client, ctx, done, err := f.client()
	if err != nil {
		return 0, err
	}
	defer done()
	admin := kadm.NewClient(client)
	var listed kadm.ListedOffsets
	if milliseconds, given := startNumber(start, "time"); given {
		listed, err = admin.ListOffsetsAfterMilli(ctx, milliseconds, topic)
	} else if start == "earliest" {
		listed, err = admin.ListStartOffsets(ctx, topic)
	} else {
		listed, err = admin.ListEndOffsets(ctx, topic)
	}
	if err != nil {
		return 0, err
	}
	found, known := listed.Lookup(topic, partition)
	if !known {
		return 0, fmt.Errorf("no offset of %s-%d", topic, partition)
	}
	return found.Offset, found.Err
}

func (f franz) consume(topic string, partition int32, offset int64, count int, each func(record)) error {
	start := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}
	client, ctx, done, err := f.client(kgo.ConsumePartitions(start))
	if err != nil {
		return err
	}
	defer done()
	for seen := 0; seen < count; {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return fmt.Errorf("%d of %d records came: %w", seen, count, errs[0].Err)
		}
		for _, made := range fetches.Records() {
			if seen++; seen > count {
				break
			}
			one := record{made.Partition, made.Offset, made.Timestamp.UnixMilli(), made.Key, made.Value, nil}
			for _, tag := range made.Headers {
				one.headers = append(one.headers, header{tag.Key, tag.Value})
			}
			each(one)
		}
	}
	return nil
}
