// Reads a Dockerfile with BuildKit's own parser and prints what its checks find; exit code 1 if there is anything.
// No stage is resolved and nothing is built, so this needs neither a registry nor a container engine.
package main

import (
	"fmt"
	"os"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dockerfile FILE")
		os.Exit(2)
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	found := 0
	tell := func(rule, _, _, message string, location []parser.Range) {
		line := 0
		if len(location) > 0 {
			line = location[0].Start.Line
		}
		fmt.Printf("%d: %s: %s\n", line, rule, message)
		found++
	}
	parsed, err := parser.Parse(file)
	if err == nil {
		_, _, err = instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: tell}))
	}
	if err != nil {
		fmt.Println(err)
		found++
	} else {
		for _, warning := range parsed.Warnings {
			fmt.Println(warning.Short)
			found++
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}
