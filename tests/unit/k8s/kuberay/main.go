// What KubeRay's operator says of the documents in a JSON array on stdin: an array of texts, empty
// where it takes the document. Its own code, so that our rules can be compared with it.
package main

import (
	"encoding/json"
	"os"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
)

func main() {
	var documents []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&documents); err != nil {
		panic(err)
	}
	answers := []string{}
	for _, document := range documents {
		answers = append(answers, said(document))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func said(document []byte) string {
	var cluster rayv1.RayCluster
	var job rayv1.RayJob
	if err := json.Unmarshal(document, &cluster); err != nil {
		return err.Error()
	}
	if cluster.Kind == "RayCluster" {
		return first(utils.ValidateRayClusterMetadata(cluster.ObjectMeta),
			utils.ValidateRayClusterSpec(&cluster.Spec, cluster.Annotations))
	}
	if err := json.Unmarshal(document, &job); err != nil {
		return err.Error()
	}
	return first(utils.ValidateRayJobMetadata(job.ObjectMeta), utils.ValidateRayJobSpec(&job))
}

func first(found ...error) string {
	for _, err := range found {
		if err != nil {
			return err.Error()
		}
	}
	return ""
}
