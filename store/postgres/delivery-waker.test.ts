import { EventEmitter } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { createDeliveryWaker, type WakeClient } from './delivery-waker.ts';

/** Connections of a server that a test controls. */
class Server {
  readonly clients: Client[] = [];
  /** The connections that are refused, and those whose LISTEN fails, before others are good. */
  refused = 0;
  failing = 0;
  notified: unknown[][] = [];

  readonly connect = (): Promise<WakeClient> => {
    if (this.refused > 0) {
      this.refused -= 1;
      return Promise.reject(new Error('refused'));
    }
    const client = new Client((this.failing -= 1) >= 0);
    this.clients.push(client);
    return Promise.resolve(client as unknown as WakeClient);
  };

  readonly database = {
    send: (_text: string, values: readonly unknown[]): Promise<[]> => {
      this.notified.push([...values]);
      for (const client of this.listOpen()) client.emit('notification', { payload: values[1] });
      return Promise.resolve([]);
    },
  };

  listOpen(): readonly Client[] {
    return this.clients.filter(({ isOpen }) => isOpen);
  }
}

class Client extends EventEmitter {
  readonly #isFailing: boolean;
  isOpen = true;

  constructor(isFailing: boolean) {
    super();
    this.#isFailing = isFailing;
  }

  query(): Promise<void> {
    return this.#isFailing ? Promise.reject(new Error('LISTEN failed')) : Promise.resolve();
  }

  end(): Promise<void> {
    this.lose();
    return Promise.resolve();
  }

  lose(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.emit('end');
  }
}

async function listen(server: Server): Promise<{ calls: () => number; end: () => Promise<void>; wake: () => void }> {
  let calls = 0;
  const waker = createDeliveryWaker({ ...server, connect: server.connect, reconnectMs: 1 });
  const end = await waker.listen(() => void (calls += 1));
  onTestFinished(end);
  return { calls: () => calls, end, wake: () => waker.wake() };
}

test('a first connection whose LISTEN fails is an error, and leaves no connection', async () => {
  const server = new Server();
  server.failing = 1;
  await expect(listen(server)).rejects.toThrow('LISTEN failed');
  expect(server.listOpen()).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(server.clients).toHaveLength(1);
});

test('a lost connection is followed by one other, although connections and LISTEN fail first', async () => {
  const server = new Server();
  const { calls } = await listen(server);
  server.refused = 2;
  server.failing = 2;
  server.clients[0]!.lose();
  await expect.poll(calls).toBe(1);
  expect(server.clients).toHaveLength(4);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([server.clients.length, server.listOpen().length, calls()]).toEqual([4, 1, 1]);
});

test('a listener that ends closes its connection and makes no further one', async () => {
  const server = new Server();
  const { calls, end } = await listen(server);
  await end();
  expect(server.listOpen()).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([server.clients.length, calls()]).toEqual([1, 0]);
});

test('a listener that ends while the server is away makes no further connection', async () => {
  const server = new Server();
  const { end } = await listen(server);
  server.refused = Infinity;
  server.clients[0]!.lose();
  await end();
  server.refused = 0;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(server.clients).toHaveLength(1);
});

test('a process hears its own call once, and calls of other processes too', async () => {
  const server = new Server();
  const one = await listen(server);
  const other = await listen(server);
  one.wake();
  expect([one.calls(), other.calls()]).toEqual([1, 0]);
  await expect.poll(other.calls).toBe(1);
  expect([one.calls(), server.notified.length]).toEqual([1, 1]);
});
