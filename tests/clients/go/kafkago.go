package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaGo struct{ bootstrap string }

func (k kafkaGo) client() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(addresses(k.bootstrap)...), Timeout: wait}
}

// The library's shared transport remembers for seconds that a topic was not there; this one does not.
func newTransport() *kafka.Transport { return &kafka.Transport{} }

func (k kafkaGo) create(topic string, partitions int) error {
	response, err := k.client().CreateTopics(context.Background(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err != nil {
		return err
	}
	return response.Errors[topic]
}

func (k kafkaGo) transact(id string, topic string, values [][]byte, commit bool) error {
	return errors.New("kafka-go has no transactional producer")
}

func (k kafkaGo) produce(how settings, records []record) ([]int64, error) {
	if how.idempotent {
		return nil, errors.New("kafka-go has no idempotent producer")
	}
	offsets := make([]int64, len(records))
	for index := range offsets {
		offsets[index] = -1
	}
	var guard sync.Mutex
	transport := newTransport()
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr:         kafka.TCP(addresses(k.bootstrap)...),
		Topic:        how.topic,
		Transport:    transport,
		BatchTimeout: 5 * time.Millisecond,
		RequiredAcks: map[string]kafka.RequiredAcks{
			"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll,
		}[how.acks],
		Compression: map[string]kafka.Compression{
			"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}[how.codec],
		Balancer: kafka.BalancerFunc(func(message kafka.Message, _ ...int) int {
			return int(records[message.WriterData.(int)].partition)
		}),
		Completion: func(messages []kafka.Message, err error) {
			guard.Lock()
			defer guard.Unlock()
			for _, message := range messages {
				if err == nil && how.acks != "0" {
					offsets[message.WriterData.(int)] = message.Offset
				}
			}
		},
	}
	messages := make([]kafka.Message, 0, len(records))
	for index, one := range records {
		message := kafka.Message{
			Time:       time.UnixMilli(one.timestampMs),
			Key:        one.key,
			Value:      one.value,
			WriterData: index,
		}
		for _, header := range one.headers {
			message.Headers = append(message.Headers, kafka.Header{Key: header.name, Value: header.value})
		}
		messages = append(messages, message)
	}
	err := writer.WriteMessages(context.Background(), messages...)
	if closing := writer.Close(); err == nil {
		err = closing
	}
	guard.Lock()
	defer guard.Unlock()
	return offsets, err
}

func (k kafkaGo) position(topic string, partition int32, start string) (int64, error) {
	if offset, given := startNumber(start, "offset"); given {
		return offset, nil
	}
	connection, err := kafka.DialLeader(context.Background(), "tcp", addresses(k.bootstrap)[0], topic, int(partition))
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	if milliseconds, given := startNumber(start, "time"); given {
		offset, err := connection.ReadOffset(time.UnixMilli(milliseconds))
		if err == nil && offset < 0 {
			return connection.ReadLastOffset()
		}
		return offset, err
	}
	if start == "earliest" {
		return connection.ReadFirstOffset()
	}
	return connection.ReadLastOffset()
}

func (k kafkaGo) consume(topic string, partition int32, offset int64, count int, each func(record)) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   addresses(k.bootstrap),
		Topic:     topic,
		Partition: int(partition),
		MinBytes:  1,
		MaxBytes:  10 << 20,
		MaxWait:   100 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for seen := 0; seen < count; seen++ {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return fmt.Errorf("%d of %d records came: %w", seen, count, err)
		}
		one := record{int32(message.Partition), message.Offset, message.Time.UnixMilli(), message.Key, message.Value, nil}
		for _, made := range message.Headers {
			one.headers = append(one.headers, header{made.Key, made.Value})
		}
		each(one)
	}
	return nil
}
