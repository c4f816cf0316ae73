/** Remedies for a run that cannot be continued: a line for each kind of refusal. */
import type { Continuation } from '../../domain/pipeline/continue.ts';
import type { ContinueRequest } from '../../domain/run/origin.ts';
import { renderCommand } from '../runs/run-id.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

/** The limit of names in one remedy. */
const MOST_NAMED = 20;

export function continueRemedies(
  runId: string,
  { agents, cannot, obstacles, unknownFresh }: Omit<Continuation, 'problems'>,
  { fresh = [] }: ContinueRequest,
): readonly string[] {
  const again = renderCommand('retry', runId);
  const known = fresh.filter((name) => !unknownFresh.includes(name));
  const withFresh = (names: readonly string[]): string =>
    renderCommand('retry', runId, {
      options: ['--continue', ...names.map((name) => `--fresh ${quoteArgument(name)}`)].join(' '),
    });
  const these = cannot.length === 1 ? 'this agent' : 'these agents';
  const areNamed = agents.size > 0 && cannot.length > 0 && cannot.length <= MOST_NAMED;
  return [
    ...(obstacles.has('unsaved') ? [`Read the notice with the reason: ${renderCommand('status', runId)}`] : []),
    ...(obstacles.has('shares-vm')
      ? ['For later runs: give the agent a `sandbox` of its own without writable mounts']
      : []),
    ...(obstacles.has('differs') ? ['Leave out options that change the stage, such as --param'] : []),
    ...(obstacles.has('cost') ? ['Leave out --max-cost-usd, or set --max-tokens instead'] : []),
    ...(unknownFresh.length > 0
      ? [`Leave out ${unknownFresh.length === 1 ? 'this name' : 'these names'}: ${withFresh(known)}`]
      : []),
    ...(areNamed ? [`Start only ${these} from the beginning: ${withFresh([...known, ...cannot])}`] : []),
    ...(obstacles.has('too-many') ? [`Start some of them from the beginning: ${withFresh([])} --fresh STAGE`] : []),
    ...(obstacles.has('none-left') ? [`Leave out --continue: ${again}`] : []),
    ...(cannot.length > 0 ? [`Start every agent from its beginning: ${again}`] : []),
  ];
}
