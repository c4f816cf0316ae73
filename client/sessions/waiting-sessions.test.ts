/** Which open sessions are asked, and what becomes of one that does not answer. */
import type { Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import type { SessionView } from '../../activities/contract-session.ts';
import { listWaitingSessions } from './waiting-sessions.ts';

const HUMAN: SessionView['open'] = [{ step: 'sign', turn: 3, phase: 'asking', human: { assignee: 'Ada', dueMs: 9 } }];
const AGENT: SessionView['open'] = [{ step: 'work', turn: 1, phase: 'asking' }];

/** Sessions by id, each with its open steps or with the error that its query throws. */
function clientOf(sessions: Readonly<Record<string, SessionView['open'] | Error>>): {
  readonly client: Client;
  readonly asked: readonly string[];
} {
  const asked: string[] = [];
  const client = {
    workflow: {
      async *list() {
        for (const workflowId of Object.keys(sessions))
          yield {
            workflowId,
            status: { name: 'RUNNING' },
            startTime: new Date(0),
            typedSearchAttributes: { getAll: () => [] },
          };
      },
      getHandle: (id: string) => ({
        query: async () => {
          asked.push(id);
          const open = sessions[id]!;
          if (open instanceof Error) throw open;
          return { open, childSessions: [] };
        },
        describe: async () => ({ status: { name: 'RUNNING' } }),
      }),
    },
  };
  return { client: client as unknown as Client, asked };
}

test('the list shows sessions that wait for people, for whom and until when', async () => {
  const { client } = clientOf({ a: AGENT, b: HUMAN, c: [...AGENT, ...HUMAN] });
  const { sessions, unasked } = await listWaitingSessions(client, { limit: 20 });
  const waiting = [{ step: 'sign', turn: 3, assignee: 'Ada', dueMs: 9 }];
  expect(sessions.map((one) => [one.session, one.waiting])).toEqual([
    ['b', waiting],
    ['c', waiting],
  ]);
  expect(unasked).toEqual([]);
});

test('no more are asked than are needed, save those that are asked at once', async () => {
  const { client, asked } = clientOf(Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`s${n}`, HUMAN])));
  const { sessions } = await listWaitingSessions(client, { limit: 10 });
  expect(sessions.map(({ session }) => session)).toEqual(Array.from({ length: 10 }, (_, n) => `s${n}`));
  expect(asked).toHaveLength(16);
});

test('a session that does not answer is named, and hides no other', async () => {
  const { client } = clientOf({ mute: new Error('Query timed out'), b: HUMAN });
  const { sessions, unasked } = await listWaitingSessions(client, { limit: 20 });
  expect(sessions.map(({ session }) => session)).toEqual(['b']);
  expect(unasked).toEqual([{ session: 'mute', reason: 'Query timed out' }]);
});

test('a server that has gone is an error', async () => {
  const gone = new Error('Failed to query Workflow', { cause: { code: 14, message: 'no connection' } });
  await expect(listWaitingSessions(clientOf({ a: gone }).client, { limit: 20 })).rejects.toBe(gone);
});
