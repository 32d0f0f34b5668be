// Produces three records and consumes them with franz-go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const topic = "greetings-go"

func main() {
	bootstrap := "127.0.0.1:9092"
	if len(os.Args) > 1 {
		bootstrap = os.Args[1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.AllowAutoTopicCreation(),
		kgo.DefaultProduceTopic(topic),
		kgo.ConsumerGroup("examples-go"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, word := range []string{"hello", "from", "Odradek"} {
		if err := client.ProduceSync(ctx, kgo.StringRecord(word)).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
	for seen := 0; seen < 3; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		for _, record := range fetches.Records() {
			fmt.Println(record.Offset, string(record.Value))
			seen++
		}
	}
}
