// Starts a broker with Testcontainers, produces three records and consumes them with franz-go.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	container, err := kafka.Run(ctx, "odradek:7.9.0")
	// The shell that the module starts ignores SIGTERM.
	defer testcontainers.TerminateContainer(container, testcontainers.StopTimeout(0))
	if err == nil {
		err = greet(ctx, container)
	}
	if err != nil {
		log.Print(err)
	}
}

func greet(ctx context.Context, container *kafka.KafkaContainer) error {
	brokers, err := container.Brokers(ctx)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.AllowAutoTopicCreation(),
		kgo.DefaultProduceTopic("greetings"),
		kgo.ConsumerGroup("examples-go"),
		kgo.ConsumeTopics("greetings"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, word := range []string{"hello", "from", "Odradek"} {
		if err := client.ProduceSync(ctx, kgo.StringRecord(word)).FirstErr(); err != nil {
			return err
		}
	}
	for seen := 0; seen < 3; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			fmt.Println(record.Offset, string(record.Value))
			seen++
		}
	}
	return nil
}
