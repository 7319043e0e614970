/* Search without a server: browsers start no worker from a file, so its script runs in a hidden frame instead. */
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((resolve, reject) => {
        const start = () => {
          this.inside = frame.contentWindow;
          this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = this.inside.document.createElement("script");
          script.src = url;
          script.onload = resolve;
          script.onerror = reject;
          this.inside.document.body.append(script);
        };
        frame.addEventListener("load", start, { once: true });
      });
      const place = () => document.body.append(frame);
      document.body ? place() : addEventListener("DOMContentLoaded", place);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  }
  window.IFrameWorker = window.Worker = IFrameWorker;
}
