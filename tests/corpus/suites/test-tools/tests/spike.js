import http from "k6/http";

export const options = { vus: 20 };

export default function () {
  http.get("http://shop:8080/health");
}
