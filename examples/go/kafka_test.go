// A test with a broker of its own: go test . (odradek is on the PATH).
package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// startKafka returns the address of a broker that ends with the test, or with its process.
func startKafka(t *testing.T) string {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	command := exec.Command("odradek", "start", "--ephemeral", "--port", "0",
		"--ready-file", ready, "--stop-at-end-of-input")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		input.Close()
		<-ended
	})
	for {
		content, err := os.ReadFile(ready)
		if err == nil {
			line, _, _ := strings.Cut(string(content), "\n")
			return strings.TrimPrefix(line, "bootstrap_servers=")
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatal("odradek ended: ", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestAnOrderIsStored(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(startKafka(t)),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders", Value: []byte("one")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if value := string(fetches.Records()[0].Value); value != "one" {
		t.Fatal("read ", value)
	}
}
