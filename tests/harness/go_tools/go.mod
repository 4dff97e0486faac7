module raymirror.test/go_tools

go 1.25.0

require (
	github.com/cloudhut/connect-client v0.0.0-20240523140316-27c93e339567
	github.com/go-kafka/connect v0.9.0
)

require (
	github.com/go-resty/resty/v2 v2.7.0 // indirect
	github.com/onsi/ginkgo v1.16.5 // indirect
	github.com/onsi/gomega v1.44.0 // indirect
	golang.org/x/net v0.56.0 // indirect
)
