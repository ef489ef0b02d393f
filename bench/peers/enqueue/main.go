// Command enqueue measures how fast asynq puts tasks of 1 KB into a Redis, and
// writes the latencies it saw, in nanoseconds, one a line.
//
//	enqueue REDIS CALLERS SECONDS
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: enqueue REDIS CALLERS SECONDS")
	}
	callers, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		log.Fatal(err)
	}
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: os.Args[1], PoolSize: 128})
	defer client.Close()
	task := asynq.NewTask("bench", bytes.Repeat([]byte("x"), 1<<10))
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	took := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	for i := range took {
		wg.Go(func() {
			for time.Now().Before(until) {
				start := time.Now()
				if _, err := client.Enqueue(task); err != nil {
					log.Fatal(err)
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, own := range took {
		for _, d := range own {
			fmt.Fprintln(out, d.Nanoseconds())
		}
	}
}
