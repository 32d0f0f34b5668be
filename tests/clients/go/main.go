// Program roundtrip puts a Go client library behind the line protocol of tests/clients/README.md.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const wait = 30 * time.Second

type header struct {
	name  string
	value []byte
}

type record struct {
	partition   int32
	offset      int64
	timestampMs int64
	key         []byte
	value       []byte
	headers     []header
}

type settings struct {
	topic      string
	codec      string
	acks       string
	idempotent bool
}

// library is what every client library can do here.
type library interface {
	create(topic string, partitions int) error
	// produce returns the offset of each record in order, or -1 where it is not known (acks=0).
	produce(how settings, records []record) ([]int64, error)
	position(topic string, partition int32, start string) (int64, error)
	consume(topic string, partition int32, offset int64, count int, each func(record)) error
	// transact writes values in a transaction and commits or aborts it.
	transact(id string, topic string, values [][]byte, commit bool) error
	// live is a member of a group until a line says `leave`.
	live(wanted groupWanted, lines <-chan string) error
	// login writes and reads with a producer and a consumer of their own.
	login(login) error
}

// addresses returns the brokers that --bootstrap lists.
func addresses(bootstrap string) []string { return strings.Split(bootstrap, ",") }

func main() {
	if len(os.Args) != 4 || os.Args[2] != "--bootstrap" {
		fmt.Fprintln(os.Stderr, "usage: roundtrip franz|sarama|kafkago --bootstrap HOST:PORT[,...]")
		os.Exit(2)
	}
	libraries := map[string]library{
		"franz":   franz{os.Args[3]},
		"sarama":  saramaLibrary{os.Args[3]},
		"kafkago": kafkaGo{os.Args[3]},
	}
	chosen, known := libraries[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown library", os.Args[1])
		os.Exit(2)
	}
	lines := make(chan string)
	go read(lines)
	for line := range lines {
		if err := command(chosen, strings.Split(line, " "), lines); err != nil {
			say(map[string]any{"error": err.Error()})
		} else {
			say(map[string]any{"done": true})
		}
	}
}

// read passes on the lines of the input; a member of a group takes them beside its work.
func read(lines chan<- string) {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 16<<20)
	for input.Scan() {
		lines <- input.Text()
	}
	close(lines)
}

var saying sync.Mutex

func say(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(string(line))
}

func command(chosen library, words []string, lines <-chan string) error {
	switch words[0] {
	case "create":
		return chosen.create(words[1], number(words[2]))
	case "produce":
		records := make([]record, number(words[5]))
		for index := range records {
			records[index] = parse(strings.Split(<-lines, " "))
		}
		how := settings{words[1], words[2], words[3], words[4] == "true"}
		offsets, err := chosen.produce(how, records)
		if err != nil {
			return err
		}
		for index, offset := range offsets {
			say(map[string]any{"partition": records[index].partition, "offset": offset})
		}
		return nil
	case "transact":
		values := [][]byte{}
		for index := 0; index < number(words[3]); index++ {
			values = append(values, []byte(fmt.Sprintf("%s-%s-%d", words[1], words[4], index)))
		}
		return chosen.transact(words[1], words[2], values, words[4] == "commit")
	case "consume":
		partition := int32(number(words[2]))
		offset, err := chosen.position(words[1], partition, words[3])
		if err != nil {
			return err
		}
		say(map[string]any{"position": offset})
		count := number(words[4])
		if count == 0 {
			return nil
		}
		return chosen.consume(words[1], partition, offset, count, show)
	case "group":
		instance := words[4]
		if instance == "-" {
			instance = ""
		}
		session := time.Duration(number(words[5])) * time.Millisecond
		return chosen.live(groupWanted{words[1], words[2], words[3], instance, session}, lines)
	case "login":
		say(outcome(chosen.login(parseLogin(words[1]))))
		return nil
	}
	return errors.New("unknown command " + words[0])
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return value
}

// startNumber reads the number of `offset:N` or `time:N`; the flag tells that there is one.
func startNumber(start, kind string) (int64, bool) {
	word, found := strings.CutPrefix(start, kind+":")
	if !found {
		return 0, false
	}
	return int64(number(word)), true
}

func parse(words []string) record {
	parsed := record{
		partition:   int32(number(words[0])),
		timestampMs: int64(number(words[1])),
		key:         raw(words[2]),
		value:       raw(words[3]),
	}
	if words[4] != "-" {
		for _, word := range strings.Split(words[4], ",") {
			name, value, _ := strings.Cut(word, ":")
			parsed.headers = append(parsed.headers, header{name, raw(value)})
		}
	}
	return parsed
}

func raw(word string) []byte {
	if word == "-" {
		return nil
	}
	value, err := hex.DecodeString(word[1:])
	if err != nil {
		panic(err)
	}
	return value
}

func digits(value []byte) any {
	if value == nil {
		return nil
	}
	return hex.EncodeToString(value)
}

func show(one record) {
	headers := make([][2]any, 0, len(one.headers))
	for _, header := range one.headers {
		headers = append(headers, [2]any{header.name, digits(header.value)})
	}
	say(map[string]any{
		"partition": one.partition,
		"offset":    one.offset,
		"timestamp": one.timestampMs,
		"key":       digits(one.key),
		"value":     digits(one.value),
		"headers":   headers,
	})
}
