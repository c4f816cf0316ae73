import type { ErrorCodeInfo } from './code-info.ts';

/** How a stage with a `prompt` fails, in addition to the failures of commands. Part of `ERROR_CODES`. */
export const AGENT_CODES = {
  'agent/failed': defineAgentCode(
    'The command line of an agent ended with an error, before or after its turn.',
    "Read its last lines with `voidbox logs RUN`; `--raw` shows the agent's own stream.",
  ),
  'agent/api-error': defineAgentCode(
    "A call of the model's API failed, so that the agent could not end its turn.",
    "Read the provider's words in the message: the key, the model's name, the rate limit or the address may be wrong.",
  ),
  'agent/truncated': defineAgentCode(
    'The stream of an agent stopped before its end: it was killed, or its output was cut. Half an answer is no answer.',
    'Run again; `voidbox logs RUN` shows how far it came.',
  ),
  'agent/not-found': defineAgentCode(
    "The command line of the agent's provider is not in the guest, or cannot be started there.",
    'Use an image that holds it, or try the run with `--mock-agents`.',
  ),
  'agent/no-output': defineAgentCode(
    'An agent ended without a last message and without its output file.',
    'Ask for an answer in the `prompt`, or name the file that it writes with `output_file`.',
  ),
  'agent/budget-turns': defineAgentCode(
    'An agent made more calls of the model than its budget allows, and was stopped.',
    'Raise `max_turns` of its `budget`, or ask for less in one stage.',
  ),
  'agent/budget-tokens': defineAgentCode(
    'An agent used more tokens than its budget allows, and was stopped.',
    'Raise `max_tokens` of its `budget`, or ask for less in one stage.',
  ),
  'agent/budget-cost': defineAgentCode(
    'An agent cost more than its budget allows, and was stopped.',
    'Raise `max_cost_usd` of its `budget`, or ask for less in one stage.',
  ),
  'agent/budget-unknown': defineAgentCode(
    'An agent with a budget was stopped because its usage could no longer be measured, or because its command line has no price for its model.',
    'Write the `price` of its model in `llm` if the message names a model. Otherwise check whether the agent ended processes of its VM or removed its session file; raise `max_output_mb` if the message names it.',
  ),
  'run/budget-turns': defineAgentCode(
    'Agents of a run made as many calls of the model as the budget of the run allows. Agents that continued were stopped, and no other starts.',
    'Raise `max_turns` in `budget` at the top level of the spec, or ask for less in one run.',
  ),
  'run/budget-tokens': defineAgentCode(
    'Agents of a run used as many tokens as the budget of the run allows. Agents that continued were stopped, and no other starts.',
    'Raise `max_tokens` in `budget` at the top level of the spec, or ask for less in one run.',
  ),
  'run/budget-cost': defineAgentCode(
    'Agents of a run cost as much as the budget of the run allows. Agents that continued were stopped, and no other starts.',
    'Raise `max_cost_usd` in `budget` at the top level of the spec, or ask for less in one run.',
  ),
  'skill/asks-person': defineAgentCode(
    'A step of the step machine that a stage runs waits for a person. Only an agent answers the steps of a stage.',
    'Ask people by an approval of the pipeline, before or behind the stage; or run the step machine as a session of its own: `voidbox session start`.',
  ),
  'skill/answers-refused': defineAgentCode(
    'The step machine that a stage runs refused several answers of the agent to one step.',
    'Read what it refused, and why, with `voidbox logs RUN`: the schema of the step may ask for more than its prompt says.',
  ),
  'skill/too-many-prompts': defineAgentCode(
    'The step machine that a stage runs asked the agent more often than a stage may.',
    'Give the steps of its cycles a `maxVisits`, or divide the work among several stages.',
  ),
} as const satisfies Record<string, ErrorCodeInfo>;

function defineAgentCode<S extends string, R extends string>(
  summary: S,
  remedy: R,
): { readonly kind: 'outcome'; readonly retry: 'never'; readonly summary: S; readonly remedy: R } {
  return { kind: 'outcome', retry: 'never', summary, remedy };
}
