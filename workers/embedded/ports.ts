/** Free ports of the loopback. */
import { createServer, type Server } from 'node:net';

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port!;
}

/** Finds different ports: it holds each until all are found, because the kernel may return a released one again. */
export async function freePorts(count: number): Promise<number[]> {
  const held: Server[] = [];
  try {
    for (let n = 0; n < count; n++) held.push(await listen(0));
    return held.map(portOf);
  } finally {
    await Promise.all(held.map(close));
  }
}

/** True when the port could be listened on now. */
export async function isFree(port: number): Promise<boolean> {
  try {
    await close(await listen(port));
    return true;
  } catch {
    return false;
  }
}

function listen(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host: '127.0.0.1', port }, () => resolve(server));
  });
}

function portOf(server: Server): number {
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  return address.port;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
