import http from "k6/http";

export default function () {
  http.get("http://shop:8080/health");
}
