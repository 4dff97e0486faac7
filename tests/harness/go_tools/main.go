// Drives a Connect server through the client code of tools that are written in Go.
//
// go_tools TOOL URL reads one call a line from standard input, a JSON list: the name and the arguments. It answers each
// with a line: {"value": ...}, or {"error": {"status": ..., "message": ...}}. TOOL is redpanda-console or go-kafka.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	console "github.com/cloudhut/connect-client"
	gokafka "github.com/go-kafka/connect"
)

type call struct {
	name string
	args []any
}

func (c call) text(at int) string { return c.args[at].(string) }

func (c call) number(at int) int { return int(c.args[at].(float64)) }

func (c call) flag(at int) bool { return c.args[at].(bool) }

func (c call) settings(at int) map[string]any { return c.args[at].(map[string]any) }

type failure struct {
	Status  int    `json:"status"`
	Message string `json:"message"`
}

var errUnknown = errors.New("this tool has no such call")

func redpandaConsole(url string) func(call) (any, error) {
	client := console.NewClient(console.WithHost(url), console.WithTimeout(2*time.Minute))
	ctx := context.Background()
	return func(c call) (any, error) {
		switch c.name {
		case "root":
			return client.GetRoot(ctx)
		case "names":
			return client.ListConnectors(ctx)
		case "expanded":
			return client.ListConnectorsExpanded(ctx)
		case "info":
			return client.GetConnector(ctx, c.text(0))
		case "status":
			return client.GetConnectorStatus(ctx, c.text(0))
		case "config":
			return client.GetConnectorConfig(ctx, c.text(0))
		case "topics":
			return client.GetConnectorTopics(ctx, c.text(0))
		case "plugins":
			return client.GetConnectorPlugins(ctx)
		case "validate":
			options := console.ValidateConnectorConfigOptions{Config: c.settings(1)}
			return client.PutValidateConnectorConfig(ctx, c.text(0), options)
		case "put_config":
			options := console.PutConnectorConfigOptions{Config: c.settings(1)}
			return client.PutConnectorConfig(ctx, c.text(0), options)
		case "pause":
			return nil, client.PauseConnector(ctx, c.text(0))
		case "resume":
			return nil, client.ResumeConnector(ctx, c.text(0))
		case "stop":
			return nil, client.StopConnector(ctx, c.text(0))
		case "restart":
			options := console.RestartConnectorOptions{IncludeTasks: c.flag(1), OnlyFailed: c.flag(2)}
			return nil, client.RestartConnector(ctx, c.text(0), options)
		case "restart_task":
			return nil, client.RestartConnectorTask(ctx, c.text(0), c.number(1))
		case "delete":
			return nil, client.DeleteConnector(ctx, c.text(0))
		case "create":
			request := console.CreateConnectorRequest{Name: c.text(0), Config: c.settings(1)}
			return client.CreateConnector(ctx, request)
		}
		return nil, errUnknown
	}
}

func goKafka(url string) func(call) (any, error) {
	client := gokafka.NewClient(url)
	return func(c call) (any, error) {
		switch c.name {
		case "names":
			names, _, err := client.ListConnectors()
			return names, err
		case "info":
			info, _, err := client.GetConnector(c.text(0))
			return info, err
		case "status":
			status, _, err := client.GetConnectorStatus(c.text(0))
			return status, err
		case "config":
			config, _, err := client.GetConnectorConfig(c.text(0))
			return config, err
		case "tasks":
			tasks, _, err := client.GetConnectorTasks(c.text(0))
			return tasks, err
		case "put_config":
			config := gokafka.ConnectorConfig{}
			for name, value := range c.settings(1) {
				config[name] = fmt.Sprint(value)
			}
			info, _, err := client.UpdateConnectorConfig(c.text(0), config)
			return info, err
		case "pause":
			_, err := client.PauseConnector(c.text(0))
			return nil, err
		case "resume":
			_, err := client.ResumeConnector(c.text(0))
			return nil, err
		case "restart":
			_, err := client.RestartConnector(c.text(0))
			return nil, err
		case "delete":
			_, err := client.DeleteConnector(c.text(0))
			return nil, err
		case "create":
			config := gokafka.ConnectorConfig{}
			for name, value := range c.settings(1) {
				config[name] = fmt.Sprint(value)
			}
			made := gokafka.Connector{Name: c.text(0), Config: config}
			_, err := client.CreateConnector(&made)
			return made, err
		}
		return nil, errUnknown
	}
}

func failureOf(err error) failure {
	var ofConsole console.ApiError
	var ofGoKafka gokafka.APIError
	switch {
	case errors.As(err, &ofConsole):
		return failure{ofConsole.ErrorCode, ofConsole.Message}
	case errors.As(err, &ofGoKafka):
		return failure{ofGoKafka.Code, ofGoKafka.Message}
	}
	return failure{0, err.Error()}
}

func main() {
	tools := map[string]func(string) func(call) (any, error){
		"redpanda-console": redpandaConsole,
		"go-kafka":         goKafka,
	}
	do := tools[os.Args[1]](os.Args[2])
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var words []any
		if err := json.Unmarshal(lines.Bytes(), &words); err != nil {
			panic(err)
		}
		value, err := do(call{words[0].(string), words[1:]})
		answer := map[string]any{"value": value}
		if err != nil {
			answer = map[string]any{"error": failureOf(err)}
		}
		if err := answers.Encode(answer); err != nil {
			panic(err)
		}
	}
}
