// Package stories tells what happens on the wire, flow by flow: each file in
// testdata is prose, a policy, and the messages of a client, the gateway and an
// upstream in their order. They are documentation that is tested:
//
//	go test ./test/stories          # do the stories still hold?
//	go test ./test/stories -update  # write down what happens now
package stories
