/** A sub-skill's session that its caller names before the server has it. */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { expect, test } from 'vitest';
import { settleCalled } from './update.ts';

const ASKED = { kind: 'answer', result: { kind: 'prompt' } };

/** @param missing  how often the server says that it has no such session; -1: each time */
function clientWith(missing: number, caller: 'RUNNING' | 'TERMINATED', pending = ['s~1']): Client {
  let looks = 0;
  const found = <T>(value: T): Promise<T> =>
    missing < 0 || looks++ < missing
      ? Promise.reject(new WorkflowNotFoundError('workflow not found', 's~1', undefined))
      : Promise.resolve(value);
  const raw = { pendingChildren: pending.map((workflowId) => ({ workflowId })) };
  const handles: Readonly<Record<string, object>> = {
    s: { describe: () => Promise.resolve({ status: { name: caller }, raw }) },
    's~1': {
      executeUpdate: () => found(ASKED),
      describe: () => found({ status: { name: 'RUNNING' }, raw: {} }),
    },
  };
  return { workflow: { getHandle: (id: string) => handles[id] } } as unknown as Client;
}

test.each([0, 1, 2, 3, 8])(
  'a client waits for a session that does not exist at the first %i checks',
  async (missing) => {
    expect(await settleCalled(clientWith(missing, 'RUNNING'), 's', 's~1')).toEqual(ASKED);
  },
);

test.each<[string, Client]>([
  ['its caller was ended before', clientWith(-1, 'TERMINATED')],
  ['the server does not have it to begin', clientWith(-1, 'RUNNING', ['s~2'])],
])('a client does not wait for a session: %s', async (_what, client) => {
  await expect(settleCalled(client, 's', 's~1')).rejects.toThrow(WorkflowNotFoundError);
});
