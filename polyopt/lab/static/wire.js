// Messages to the engine and back: over a socket of the page, or through the model of a notebook.

const FIRST_WAIT = 250, LONGEST_WAIT = 4000;  // milliseconds between attempts to connect

/** The page's own connection, which is made again where it breaks. */
export function overSocket(address) {
  let socket = null, heard = () => {}, told = () => {}, over = false, wait = FIRST_WAIT, timer = 0, failed = 0;
  function connect() {
    socket = new WebSocket(address);
    socket.onopen = () => {
      [wait, failed] = [FIRST_WAIT, 0];
      told("open", 0);
    };
    socket.onmessage = (event) => heard(JSON.parse(event.data));
    socket.onclose = () => {
      if (over) return;
      told("closed", failed++);
      timer = setTimeout(connect, wait);
      wait = Math.min(2 * wait, LONGEST_WAIT);
    };
  }
  setTimeout(connect);
  return {
    send(message) {
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    },
    onMessage(callback) { heard = callback; },
    onStatus(callback) { told = callback; },
    close() {
      over = true;
      clearTimeout(timer);
      socket?.close();
    },
  };
}

/** The connection of a widget: its model's messages. */
export function overModel(model) {
  let heard = () => {};
  const pass = (message) => heard(message);
  model.on("msg:custom", pass);
  return {
    send(message) { model.send(message); },
    onMessage(callback) { heard = callback; },
    onStatus(callback) { setTimeout(() => callback("open")); },
    close() { model.off("msg:custom", pass); },
  };
}

/** Requests with their numbers. Each is answered once; a broken connection answers all that wait with "lost". */
export class Desk {
  constructor(transport) {
    this.transport = transport;
    this.waiting = new Map();
    this.last = this.who = Math.floor(1e9 * Math.random());  // two views of one widget hear each other's answers
    transport.onMessage((message) => this.take(message));
  }

  /** What the engine answers; `onProgress` hears what comes before. The promise has the number of the request. */
  ask(op, fields = {}, onProgress = () => {}) {
    const id = ++this.last;
    const answer = new Promise((done) => this.waiting.set(id, { done, onProgress }));
    answer.id = id;
    this.transport.send({ id, op, who: this.who, ...fields });
    return answer;
  }

  take(message) {
    const asked = this.waiting.get(message.id);
    if (asked === undefined) {
      if (message.kind === "error") this.onStray?.(message);
      return;
    }
    if (message.kind === "progress") return void asked.onProgress(message);
    this.waiting.delete(message.id);
    asked.done(message);
  }

  lose() {
    const lost = [...this.waiting.values()];
    this.waiting.clear();
    for (const { done } of lost) done({ kind: "lost" });
  }
}
