import { expect, test } from 'vitest';
import type { DeployResult } from '../../../app/deployments/deploy.ts';
import { checkExpressions } from '../../../domain/language/expression/check.ts';
import { compileText } from '../../../domain/language/load.ts';
import { PLAIN } from '../text/style.ts';
import { renderDeployed } from './deployments.ts';

const NONE = { added: [], removed: [], changed: [] };

/** Returns the lines about the triggers of a new deployment. */
function renderTriggers(deployment: string, on: readonly object[]): readonly string[] {
  const spec = { kind: 'workflow', name: 'x', on, workflow: { steps: [{ name: 'a', run: 'true' }] } };
  const options = { baseDir: '/', checkExpression: checkExpressions };
  const { triggers, notify } = compileText(JSON.stringify(spec), 'x.json', options);
  const added = triggers.map(({ name }) => name);
  const deployed: DeployResult = {
    name: deployment,
    version: 1,
    isNew: true,
    isPaused: false,
    changes: { stages: NONE, triggers: { added, removed: ['old'], changed: [] }, others: [] },
    triggers,
    notify,
    secrets: [],
    absentUpstreams: [],
    diagnostics: [],
  };
  const lines = renderDeployed(deployed, { isDry: false, style: PLAIN });
  return lines.filter((line) => /^ {2}[+-] /.test(line));
}

test('a new deployment shows where its webhooks listen and when its schedules start', () => {
  expect(
    renderTriggers('review (eu)', [
      { name: 'push', webhook: { verify: 'github', secret: 'S' } },
      { name: 'night', schedule: { cron: '30 2 * * *', timezone: 'Europe/Berlin' } },
      { name: 'after', run: { of: 'build', state: ['failed'] } },
    ]),
  ).toEqual([
    '  + trigger push (webhook: POST /hooks/review%20(eu)/push of the service)',
    '  + trigger night (schedule: 30 2 * * * Europe/Berlin)',
    '  + trigger after (run)',
    '  - trigger old',
  ]);
});
