import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Plan } from '../../../domain/plan/plan.ts';
import type { ContinuedAgent } from '../../../domain/run/agent-saves.ts';
import { planOf } from '../../../test/machine/plan-of.ts';
import { toContinuedJson } from '../../../app/json/continued-json.ts';
import { toOriginJson } from '../../../app/json/origin-json.ts';
import { renderContinued } from './continued.ts';
import { renderReuse } from './reuse.ts';
import { PLAIN } from '../text/style.ts';

const REF = { sha256: 'a', sizeBytes: 2_048, mediaType: 'application/x-tar' };
const AGENT: ContinuedAgent = {
  runId: 'first',
  execKey: 'a/0/1',
  savedAtMs: 1_000,
  sessionId: 's1',
  folders: [{ guestPath: '/workspace', ref: REF }],
  turns: 1,
  ended: null,
};
const changes = { leftOut: ['node_modules/'], leftOutCount: 1, fileCount: 2, removedCount: 1 };
const FIXED: ContinuedAgent = {
  ...AGENT,
  turns: 14,
  folders: [{ guestPath: '/workspace', ref: REF, changes }],
  ended: {
    code: 'stage/timeout',
    message: 'stage b took\u001b[2J too long; its changes (3 files differ) are kept as b.partial.patch',
  },
};

const agentsOf = (all: Readonly<Record<string, ContinuedAgent>>) =>
  new Map(Object.entries(all).map(([stage, agent]) => [`${stage}/0`, { name: stage, stage, agent }]));

test('each agent has a line with its session, its files and the age of the save, and changed limits are listed', () => {
  const base = planOf('a b');
  const work = { kind: 'agent', mode: 'task', prompt: '', llm: null, messaging: false, skills: [], env: [] } as const;
  const plan: Plan = { ...base, timeoutMs: 60_000, stages: base.stages.map((stage) => ({ ...stage, work })) };
  const changed = { timeoutMs: 90_000, stages: { b: { timeoutMs: 31_000, budget: { maxCostUsd: 2, maxTurns: 40 } } } };
  const continued = { agents: agentsOf({ a: AGENT, b: FIXED }), changed };
  expect(renderContinued(plan, toContinuedJson(continued), 61_000, PLAIN)).toEqual([
    '  continues: a, with its session of 1 turn, 2.0 KiB of files, saved 1m ago',
    '  continues: b, with its session of 14 turns, 2 changed files, 1 deleted file, without 1 ignored file, saved 1m ago',
    '    after: stage b took too long (stage/timeout)',
    '  limits of b: 31.0 s (before: 1.0 s), $2 (before: none), 40 turns (before: none)',
    '  limits of the run: 1m 30s (before: 1m 00s)',
    '  times and budgets count from zero, without the usage of the earlier run',
  ]);
  expect(toContinuedJson(continued)).toMatchObject({
    limits: changed,
    continued: [
      {
        stage: 'a',
        runId: 'first',
        attempt: 'a/0/1',
        savedAt: '1970-01-01T00:00:01.000Z',
        turns: 1,
        changedFiles: null,
      },
      {
        stage: 'b',
        changedFiles: 2,
        deletedFiles: 1,
        leftOutCount: 1,
        sizeBytes: 2_048,
        ended: { code: 'stage/timeout' },
      },
    ],
  });
  expect(toContinuedJson(null)).toEqual({});
});

test('docs/reference/runs.md shows what is printed', () => {
  const base = planOf('build fix>build');
  const work = { kind: 'agent', mode: 'task', prompt: '', llm: null, messaging: false, skills: [], env: [] } as const;
  const stages = base.stages.map((stage) => ({ ...stage, work, timeoutMs: 1_200_000 }));
  const agent: ContinuedAgent = {
    ...AGENT,
    turns: 14,
    folders: [
      {
        guestPath: '/workspace',
        ref: REF,
        changes: { leftOut: [], leftOutCount: 0, fileCount: 3, removedCount: 1 },
      },
    ],
    ended: { code: 'stage/timeout', message: 'stage fix ran past its deadline of 1200 s and was killed' },
  };
  const given = { state: 'succeeded', output: null, outputs: {}, ranIn: 'fix-1', attempt: 1 } as const;
  const lines = [
    ...renderReuse(
      toOriginJson({
        origin: { runId: 'fix-1', kind: 'retry', from: null, continue: {} },
        reuse: {
          given: new Map([['build', given]]),
          again: new Map([['fix', { kind: 'ended', state: 'failed' }]]),
          firstDisks: new Map(),
        },
      }),
      PLAIN,
    ),
    ...renderContinued(
      { ...base, stages },
      toContinuedJson({ agents: agentsOf({ fix: agent }), changed: { stages: { fix: { timeoutMs: 3_600_000 } } } }),
      121_000,
      PLAIN,
    ),
  ];
  const page = readFileSync(new URL('../../../docs/reference/runs.md', import.meta.url), 'utf8');
  expect(page).toContain(`\n\`\`\`\n${lines.join('\n')}\n\`\`\`\n`);
});

test('a limit of one turn is in the singular', () => {
  const base = planOf('a');
  const work = { kind: 'agent', mode: 'task', prompt: '', llm: null, messaging: false, skills: [], env: [] } as const;
  const plan: Plan = { ...base, stages: base.stages.map((stage) => ({ ...stage, work })) };
  const changed = { stages: { a: { timeoutMs: 1_000, budget: { maxTurns: 1, maxTokens: 1 } } } };
  expect(renderContinued(plan, toContinuedJson({ agents: agentsOf({ a: AGENT }), changed }), 1_000, PLAIN)).toContain(
    '  limits of a: 1 token (before: none), 1 turn (before: none)',
  );
});

test('a long list is counted', () => {
  const many = Object.fromEntries(Array.from({ length: 25 }, (_, index) => [`s${index}`, AGENT]));
  const lines = renderContinued(
    planOf('a'),
    toContinuedJson({ agents: agentsOf(many), changed: { stages: {} } }),
    1_000,
    PLAIN,
  );
  expect(lines).toHaveLength(22);
  expect(lines[20]).toBe('  continues: 5 more');
});
