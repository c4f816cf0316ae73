/** The variables and logins of this machine that a run gets. */
import { loginEndKey } from '../../domain/agent/login-end.ts';
import { credentialsOf } from '../../domain/agent/credentials.ts';
import { demandedVariablesOf } from '../../domain/plan-rules/variables.ts';
import { ownStageOf } from '../../domain/plan/item-parts.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { answeringOf } from '../../domain/plan/work.ts';
import { createMapping, valueAt } from '../../domain/units/mapping.ts';
import { createEnvironmentError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { loginCommandsFor, readLogins } from './agent-logins.ts';

/** The remedy for agents that read one of the variables as their key. */
function remedyOfAgents(stages: Plan['stages']): string {
  const hasKeys = stages.some(({ work }) => {
    const answering = answeringOf(work);
    return answering !== null && credentialsOf(answering).length > 0;
  });
  return hasKeys ? '; without a key and a model: voidbox run FILE --mock-agents' : '';
}

/** @throws AppError for a variable whose bytes are not text */
export function refuseUndecodable(names: readonly string[], { undecodable }: Machine['env']): void {
  const lost = names.filter((name) => undecodable.includes(name));
  if (lost.length === 0) return;
  throw createEnvironmentError(
    'host/variable-not-text',
    `the value of ${lost.map((name) => `\`${name}\``).join(', ')} is not UTF-8, so a command would receive different bytes`,
    `Set it to UTF-8 text, for example in base64, and decode it in the command: export ${lost[0]!}=$(… | base64 -w0)`,
  );
}

/**
 * The values of variables and logins of this machine that the plan names. On your own server the worker may have the rest;
 * admission demands it.
 * @param given  stages whose outputs the run takes from an earlier run, so it does not need their values
 * @param lent  the variables that the run may read; by default those of this process
 * @throws AppError for variables that are not set, or whose bytes are not text
 */
export function selectHostVariables(
  plan: Plan,
  given: ReadonlySet<string>,
  context: Machine,
  lent: Machine['env']['variables'] = context.env.variables,
): Record<string, string> {
  const { env } = context;
  const ownOf = ownStageOf(plan);
  const left = plan.stages.filter(({ id }) => !given.has(ownOf(id)));
  const values = { ...lent, ...readLogins(left, context, lent) };
  const demanded = env.temporalConfigured ? [] : demandedVariablesOf(left);
  const missing = demanded.filter(({ name }) => valueAt(values, name) === undefined);
  if (missing.length > 0) {
    const names = missing.map(({ name, stage }) => `\`${name}\` (stage ${stage})`).join(', ');
    const commands = loginCommandsFor(missing.map(({ name }) => name));
    const otherwise = commands.map((command) => `, or log in on this machine: ${command}`).join('');
    throw createEnvironmentError(
      'host/variable-missing',
      `the spec reads ${names} from the environment, where ${missing.length === 1 ? 'it is' : 'they are'} not set`,
      lent !== env.variables
        ? `Add ${missing.length === 1 ? 'it' : 'them'} to \`variables\` of the request`
        : `Set ${missing.length === 1 ? 'it' : 'them'}: export ${missing.map(({ name }) => `${name}=…`).join(' ')}${otherwise}${remedyOfAgents(left)}`,
    );
  }
  if (lent === env.variables) refuseUndecodable(plan.hostVariables, env);
  return createMapping(
    [...plan.hostVariables, ...plan.hostVariables.map(loginEndKey)].flatMap((name) => {
      const value = valueAt(values, name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
