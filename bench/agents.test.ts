import { expect, test } from 'vitest';
import type { RunEvent } from '../domain/run/event.ts';
import { compileText } from '../domain/language/load.ts';
import { agentSpec, pairsOf } from './agents.ts';

test('the spec of the figure of agents has nothing unknown, and all of its stages are in one VM', () => {
  const { plan, diagnostics } = compileText(agentSpec(2), 'bench.yaml', { baseDir: '/', params: {} });
  expect(diagnostics).toEqual([]);
  expect(plan!.stages.map(({ id }) => id)).toEqual(['hand0', 'agent0', 'hand1', 'agent1', 'hand2', 'agent2']);
  expect(new Set(plan!.stages.map(({ scope }) => scope)).size).toBe(1);
});

test('a stage counts from the end of the one before it, and by hand what it printed', () => {
  const finished = (stage: string, atMs: number): unknown => ({ atMs, body: { type: 'stage-finished', stage } });
  const events = [
    finished('agent0', 1_000),
    { atMs: 1_100, body: { type: 'output', stage: 'hand1', data: '20000\n' } },
    finished('hand1', 1_200),
    finished('agent1', 1_500),
  ] as RunEvent[];
  expect(pairsOf(events, 1)).toEqual([{ byHandMs: 20, commandStageMs: 200, agentStageMs: 300, overheadMs: 280 }]);
  expect(() => pairsOf(events.slice(1), 1)).toThrow('has not ended');
  expect(() => pairsOf([events[0]!, ...events.slice(2)], 1)).toThrow('printed no time');
});
