// Reads one quantity per line and prints what Kubernetes makes of it: its canonical text and its value in thousandths.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var quantity resource.Quantity
		if err := json.Unmarshal(lines.Bytes(), &quantity); err != nil {
			fmt.Println("invalid")
			continue
		}
		decimal := quantity.AsDec()
		fmt.Println("valid", quantity.String(), decimal.String())
	}
}
