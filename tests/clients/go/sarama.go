package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

type saramaLibrary struct{ bootstrap string }

func (s saramaLibrary) addresses() []string { return addresses(s.bootstrap) }

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	return config
}

func (s saramaLibrary) create(topic string, partitions int) error {
	admin, err := sarama.NewClusterAdmin(s.addresses(), newConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}
	return admin.CreateTopic(topic, detail, false)
}

func (s saramaLibrary) transact(id string, topic string, values [][]byte, commit bool) error {
	config := newConfig()
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = id
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(s.addresses(), config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	for _, value := range values {
		message := &sarama.ProducerMessage{Topic: topic, Partition: 0, Value: sarama.ByteEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	if commit {
		return producer.CommitTxn()
	}
	return producer.AbortTxn()
}

func (s saramaLibrary) produce(how settings, records []record) ([]int64, error) {
	config := newConfig()
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none":   sarama.CompressionNone,
		"gzip":   sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy,
		"lz4":    sarama.CompressionLZ4,
		"zstd":   sarama.CompressionZSTD,
	}[how.codec]
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}[how.acks]
	if how.idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(s.addresses(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, 0, len(records))
	for _, one := range records {
		message := &sarama.ProducerMessage{
			Topic:     how.topic,
			Partition: one.partition,
			Timestamp: time.UnixMilli(one.timestampMs),
		}
		if one.key != nil {
			message.Key = sarama.ByteEncoder(one.key)
		}
		if one.value != nil {
			message.Value = sarama.ByteEncoder(one.value)
		}
		for _, header := range one.headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.name), Value: header.value})
		}
		messages = append(messages, message)
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(messages))
	for _, message := range messages {
		if how.acks == "0" {
			message.Offset = -1
		}
		offsets = append(offsets, message.Offset)
	}
	return offsets, nil
}

func (s saramaLibrary) position(topic string, partition int32, start string) (int64, error) {
	if offset, given := startNumber(start, "offset"); given {
		return offset, nil
	}
	client, err := sarama.NewClient(s.addresses(), newConfig())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if milliseconds, given := startNumber(start, "time"); given {
		offset, err := client.GetOffset(topic, partition, milliseconds)
		if err == nil && offset < 0 {
			return client.GetOffset(topic, partition, sarama.OffsetNewest)
		}
		return offset, err
	}
	if start == "earliest" {
		return client.GetOffset(topic, partition, sarama.OffsetOldest)
	}
	return client.GetOffset(topic, partition, sarama.OffsetNewest)
}

func (s saramaLibrary) consume(topic string, partition int32, offset int64, count int, each func(record)) error {
	consumer, err := sarama.NewConsumer(s.addresses(), newConfig())
	if err != nil {
		return err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, partition, offset)
	if err != nil {
		return err
	}
	defer reader.Close()
	late := time.After(wait)
	for seen := 0; seen < count; seen++ {
		select {
		case message := <-reader.Messages():
			one := record{message.Partition, message.Offset, message.Timestamp.UnixMilli(), message.Key, message.Value, nil}
			for _, made := range message.Headers {
				one.headers = append(one.headers, header{string(made.Key), made.Value})
			}
			each(one)
		case <-late:
			return fmt.Errorf("only %d of %d records came", seen, count)
		}
	}
	return nil
}
