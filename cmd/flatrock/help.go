package main

import "fmt"

func (a *app) help(args []string) error {
	_, err := fmt.Fprintln(a.out, "flatrock")
	return err
}
