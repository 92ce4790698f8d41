package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/dbbench"
)

const completionText = `flatrock completion bash|zsh|fish

Prints what makes the shell complete flatrock's tools, ldb's commands, and options.

Examples:
    source <(flatrock completion bash)           # in ~/.bashrc
    source <(flatrock completion zsh)            # in ~/.zshrc, after compinit
    flatrock completion fish > ~/.config/fish/completions/flatrock.fish
`

// tools are the first words of flatrock.
var tools = []string{"ldb", "sst_dump", "doctor", "repair", "stress", "trace", "db_bench", "completion", "version", "help"}

// completionOptions are the options of a tool with their dashes, by name.
func completionOptions(tool string) (list []string) {
	switch tool {
	case "ldb":
		list = slices.Clone(commonOptions)
		for _, c := range ldbCommands() {
			list = append(list, c.options...)
		}
	case "sst_dump":
		list = slices.Concat(sstOptions, recompressOptions)
	case "db_bench":
		list = dbbench.Flags()
	case "doctor":
		list = []string{"no-checksums", "json", "wal_dir", "max_decompressed_size"}
	case "repair":
		list = []string{"dry-run", "json", "wal_dir", "file_mode", "max_decompressed_size"}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	for i := range list {
		list[i] = "--" + list[i]
	}
	return list
}

// completionWords are what may follow a tool, besides files.
func completionWords(tool string) string {
	var list []string
	switch tool {
	case "ldb":
		for _, c := range ldbCommands() {
			list = append(list, c.name)
		}
	case "completion":
		list = []string{"bash", "zsh", "fish"}
	case "help":
		list = append(slices.Clone(tools), "--all")
	}
	return strings.Join(append(list, completionOptions(tool)...), " ")
}

// completion prints the script for a shell.
func (a *app) completion(args []string) error {
	if len(args) != 1 || !slices.Contains([]string{"bash", "zsh", "fish"}, args[0]) {
		return usagef("completion wants bash, zsh or fish; see flatrock help completion")
	}
	var b strings.Builder
	switch args[0] {
	case "fish":
		fmt.Fprintf(&b, "complete -c flatrock -n __fish_use_subcommand -f -a %q\n", strings.Join(tools, " "))
		for _, tool := range tools {
			if words := completionWords(tool); words != "" {
				fmt.Fprintf(&b, "complete -c flatrock -n '__fish_seen_subcommand_from %s' -a %q\n", tool, words)
			}
		}
	case "zsh":
		b.WriteString("autoload -Uz bashcompinit && bashcompinit\n")
		fallthrough
	default:
		b.WriteString("_flatrock() {\n    local words='' current=\"${COMP_WORDS[COMP_CWORD]}\" tool=\"${COMP_WORDS[1]}\"\n")
		b.WriteString("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='" + strings.Join(tools, " ") + "'\n    else\n        case \"$tool\" in\n")
		for _, tool := range tools {
			if words := completionWords(tool); words != "" {
				fmt.Fprintf(&b, "        %s) words='%s' ;;\n", tool, words)
			}
		}
		b.WriteString("        esac\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n")
		b.WriteString("complete -o default -F _flatrock flatrock\n")
	}
	_, err := a.out.WriteString(b.String())
	return err
}
