/** An agent that is resumed in another VM: its session also contains the usage of the lost VM. VMs are mocks. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { codex } from '../../agents/codex.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { writeTar } from '../../tar/write.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageRequest } from '../calls/requests.ts';
import { runStage } from '../attempt/run-stage.ts';

const RUN = 'run-1';
const SESSION = '01a20e4f-499c-73c1-8912-0b6c6e66e01b';

let stateDir: string;
let backend: MockBackend;
let stores: Stores;
/** The tokens of the whole session, as the agent reports them at its end. */
let totalTokens: number;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-resume-'));
  backend = createMockBackend({
    programs: {
      '/usr/lib/voidbox/mock-agents/codex': async ({ args, write }) => {
        const line = (value: object): Promise<void> => write('stdout', `${JSON.stringify(value)}\n`);
        await line({ type: 'thread.started', thread_id: args[args.indexOf('resume') + 1] });
        await line({ type: 'item.completed', item: { type: 'agent_message', text: 'done' } });
        await line({ type: 'turn.completed', usage: { input_tokens: totalTokens, output_tokens: 0 } });
        return 0;
      },
    },
  });
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await backend.release({ runId: RUN, scope: 'think', instance: [], generation: 0 });
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

const counted = (total: number): string =>
  `${JSON.stringify({
    type: 'event_msg',
    payload: {
      type: 'token_count',
      info: { total_token_usage: { input_tokens: total }, last_token_usage: { input_tokens: 100 } },
    },
  })}\n`;

/** The first attempt, whose VM was lost: the session of its save has these files. */
async function saved(files: Readonly<Record<string, string>>): Promise<void> {
  const items = Object.entries(files).map(
    ([path, text]) => ({ kind: 'file', path, mode: 0o600, body: Buffer.from(text) }) as const,
  );
  const ref = await stores.artifacts.put(writeTar(items), 'application/x-tar');
  const execKey = 'think/0/1';
  const folders = [{ guestPath: codex.sessionFolder, ref }];
  const body = { type: 'stage-progress', stage: 'think', execKey, sessionId: SESSION, folders, frozenMs: 1 } as const;
  await stores.events.append(RUN, [{ id: EVENT_ID.progress(execKey, 1), atMs: 1, body }]);
}

async function usageOfNext(): Promise<StageResult['usage']> {
  const llm = { provider: 'codex', model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false } as const;
  const work = { kind: 'agent', mode: 'task', prompt: 'Judge it.', llm, skills: [], env: [] } as const;
  const stage = plainStage('think', 'think', ['true'], { work: { ...work, messaging: false, played: true } });
  const request = plainRequest(RUN, stage, { execKey: 'think/0/2', attempt: 2 });
  const deps = mockWorkerDeps({ stateDir, stores, backend });
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  const run = environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>;
  return (await run.call(environment, runStage, deps, request)).usage;
}

test('the attempt counts its own calls, not the calls that its session had when it was saved', async () => {
  await saved({
    [`2026/01/01/rollout-x-${SESSION}.jsonl`]: `${counted(100)}no JSON\n${counted(900)}{"type":"event_msg"}\n`,
    // The file of another session.
    '2026/01/02/rollout-x-01a20e4f-499c-73c1-8912-000000000000.jsonl': counted(5_000),
  });
  totalTokens = 1_200;
  expect(await usageOfNext()).toMatchObject({ inputTokens: 300, turns: 1 });
});

test('the reported usage is never negative, whatever the saved session contains', async () => {
  await saved({ [`rollout-x-${SESSION}.jsonl`]: counted(-5) + counted(Number.MAX_SAFE_INTEGER) });
  totalTokens = 1_200;
  expect(await usageOfNext()).toMatchObject({ inputTokens: 0, turns: 1 });
});
