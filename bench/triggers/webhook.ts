/** A sender that signs events, and keeps its connections. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { DEPLOYMENT, SECRET, type TriggerStack } from './stack.ts';

export interface Sender {
  /** @returns the id of the delivery */
  send(trigger: string, body: string): Promise<string>;
  close(): void;
}

export function createSender({ port }: Pick<TriggerStack, 'port'>, connections: number): Sender {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  return {
    async send(trigger, body) {
      const sent = request({
        agent,
        host: '127.0.0.1',
        port,
        path: `/hooks/${DEPLOYMENT}/${trigger}`,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-github-event': 'push',
          'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
        },
      });
      sent.end(body);
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      const parts: string[] = [];
      response.setEncoding('utf8');
      for await (const part of response) parts.push(part as string);
      if (response.statusCode !== 202)
        throw new Error(`a webhook has the status ${response.statusCode}: ${parts.join('')}`);
      return (JSON.parse(parts.join('')) as { readonly delivery: string }).delivery;
    },
    close: () => agent.destroy(),
  };
}

/** Calls `work` for each number below `count`, so many at once. */
export async function repeatAtOnce(count: number, atOnce: number, work: (at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const runLane = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, runLane));
}
