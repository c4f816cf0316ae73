/**
 * Measures what an agent's stage costs in addition to its command line. In one VM, the mock agent runs in turn as a
 * stage and by hand. By hand means a shell command in the VM, which takes the time itself.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { codex } from '../agents/codex.ts';
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { RunEvent } from '../domain/run/event.ts';
import type { Arm } from './measure.ts';

const run = promisify(execFile);

const PROMPT = 'Answer.';
/** The one with which the mock agent is called as Codex. */
const MOCK_CODEX = '/usr/lib/voidbox/mock-agents/codex';

/** Pairs come behind one stage of each kind that is not counted. */
export function agentSpec(pairs: number): string {
  const { args } = codex.command({
    prompt: PROMPT,
    llm: null,
    skills: [],
    outputSchema: undefined,
    limits: {},
    resume: null,
  });
  const call = [MOCK_CODEX, ...args].map((word) => `'${word}'`).join(' ');
  const script = `b=\${EPOCHREALTIME/./}; ${call} <<< "$0" > /dev/null || exit 1; e=\${EPOCHREALTIME/./}; echo $((e - b))`;
  const steps = Array.from({ length: pairs + 1 }, (_, pair) => [
    `    - { name: hand${pair}, run: { program: bash, args: ${JSON.stringify(['-c', script, PROMPT])} }${pair > 0 ? `, depends_on: [agent${pair - 1}]` : ''} }`,
    `    - { name: agent${pair}, prompt: ${PROMPT}, depends_on: [hand${pair}] }`,
  ]);
  return `api_version: v1
kind: workflow
name: agent-stages
llm: { provider: codex }
sandbox: { image: dev, memory_mb: 512 }
workflow:
  output_step: agent${pairs}
  steps:
${steps.flat().join('\n')}
`;
}

export type AgentMeasure = 'byHandMs' | 'commandStageMs' | 'agentStageMs' | 'overheadMs';

export interface AgentArmOptions {
  readonly bin: string;
  readonly workDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly reader: RunReader;
}

/** A round is a pair; all pairs are of one run. */
export function agentArm({ bin, workDir, env, reader }: AgentArmOptions, pairs: number): Arm<AgentMeasure> {
  let measured: readonly Readonly<Record<AgentMeasure, number>>[] | null = null;
  let next = 0;
  const spec = join(workDir, 'agent-stages.yaml');
  writeFileSync(spec, agentSpec(pairs));
  return {
    name: 'agent stage and mock agent by hand',
    async round() {
      if (measured === null) {
        const runId = `agents-${randomUUID().slice(0, 8)}`;
        await run(process.execPath, [bin, 'run', spec, '--mock-agents', '--run-id', runId], { env: { ...env } });
        const events: RunEvent[] = [];
        for await (const event of reader.read(runId, 0)) events.push(event);
        measured = pairsOf(events, pairs);
      }
      return measured[next++]!;
    },
  };
}

/** A stage counts from the end of the stage before it to its own: with all that Temporal, the worker and the records take. */
export function pairsOf(events: readonly RunEvent[], pairs: number): readonly Readonly<Record<AgentMeasure, number>>[] {
  const ended = new Map<string, number>();
  const printed = new Map<string, string>();
  for (const { atMs, body } of events) {
    if (body.type === 'stage-finished') ended.set(body.stage, atMs);
    if (body.type === 'output') printed.set(body.stage, (printed.get(body.stage) ?? '') + body.data);
  }
  const endOf = (stage: string): number => {
    const atMs = ended.get(stage);
    if (atMs === undefined) throw new Error(`stage ${stage} has not ended`);
    return atMs;
  };
  return Array.from({ length: pairs }, (_, index) => {
    const [before, hand, agent] = [`agent${index}`, `hand${index + 1}`, `agent${index + 1}`] as const;
    const byHandMs = Number(printed.get(hand)) / 1000;
    if (!(byHandMs > 0)) throw new Error(`stage ${hand} printed no time: ${printed.get(hand)}`);
    const agentStageMs = endOf(agent) - endOf(hand);
    return {
      byHandMs,
      commandStageMs: endOf(hand) - endOf(before),
      agentStageMs,
      overheadMs: agentStageMs - byHandMs,
    };
  });
}
