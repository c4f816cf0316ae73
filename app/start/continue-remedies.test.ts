import { expect, test } from 'vitest';
import type { ContinueObstacle, ContinuingAgent } from '../../domain/pipeline/continue.ts';
import type { ContinueRequest } from '../../domain/run/origin.ts';
import { continueRemedies } from './continue-remedies.ts';

interface Refused {
  readonly obstacle: ContinueObstacle;
  readonly cannot?: readonly string[];
  readonly others?: number;
  readonly unknownFresh?: readonly string[];
  readonly request?: ContinueRequest;
}

function remediesFor({
  obstacle,
  cannot = [],
  others = 0,
  unknownFresh = [],
  request = {},
}: Refused): readonly string[] {
  const agent: ContinuingAgent = {
    name: 'other',
    stage: 'other',
    agent: { runId: 'r1', execKey: 'other/0/1', savedAtMs: 1, sessionId: 's', folders: [], turns: 1, ended: null },
  };
  const agents = new Map(Array.from({ length: others }, (_, at) => [`other${at}/0`, agent]));
  return continueRemedies('r1', { agents, cannot, obstacles: new Set([obstacle]), unknownFresh }, request);
}

const EVERY = 'Start every agent from its beginning: voidbox retry r1';

test.each<[Refused, readonly string[]]>([
  [{ obstacle: 'unsaved', cannot: ['fix'] }, ['Read the notice with the reason: voidbox status r1', EVERY]],
  [
    { obstacle: 'unsaved', cannot: ['fix'], others: 1, request: { fresh: ['plan'] } },
    [
      'Read the notice with the reason: voidbox status r1',
      'Start only this agent from the beginning: voidbox retry r1 --continue --fresh plan --fresh fix',
      EVERY,
    ],
  ],
  [
    { obstacle: 'shares-vm', cannot: ['fix'] },
    ['For later runs: give the agent a `sandbox` of its own without writable mounts', EVERY],
  ],
  [{ obstacle: 'differs', cannot: ['fix'] }, ['Leave out options that change the stage, such as --param', EVERY]],
  [
    { obstacle: 'runs-again', cannot: ['a', 'fixes[1].work'], others: 1 },
    [
      "Start only these agents from the beginning: voidbox retry r1 --continue --fresh a --fresh 'fixes[1].work'",
      EVERY,
    ],
  ],
  [{ obstacle: 'never-saved', cannot: ['a'] }, [EVERY]],
  [{ obstacle: 'cost', others: 1 }, ['Leave out --max-cost-usd, or set --max-tokens instead']],
  [
    { obstacle: 'fresh', others: 1, unknownFresh: ['typo'], request: { fresh: ['typo', 'plan'] } },
    ['Leave out this name: voidbox retry r1 --continue --fresh plan'],
  ],
  [
    { obstacle: 'too-many', others: 2 },
    ['Start some of them from the beginning: voidbox retry r1 --continue --fresh STAGE'],
  ],
  [{ obstacle: 'none-left' }, ['Leave out --continue: voidbox retry r1']],
])('the remedies fit the refusal %o', (refused, remedies) => {
  expect(remediesFor(refused)).toEqual(remedies);
});
