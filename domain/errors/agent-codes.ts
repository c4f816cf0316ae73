import type { ErrorCodeInfo } from './code-info.ts';

/** How a stage with a `prompt` fails, in addition to the failures of commands. Part of `ERROR_CODES`. */
export const AGENT_CODES = {
  'agent/failed': defineAgentCode(
    'The command line of an agent ended with an error, before or after its turn.',
    "Read its last lines with `voidbox logs RUN`; `--raw` shows the agent's own stream.",
  ),
  'agent/api-error': defineAgentCode(
    "A call of the model's API failed, so that the agent could not end its turn.",
    "Read the provider's error in the message: check the key, the model's name, the rate limit and the URL.",
  ),
  'agent/truncated': defineAgentCode(
    'The output stream of an agent ended early: the agent was killed, or its output was cut off. Voidbox does not use incomplete answers.',
    'Run again; `voidbox logs RUN` shows the last output.',
  ),
  'agent/not-found': defineAgentCode(
    "The command line of the agent's provider is not in the guest, or cannot be started there.",
    'Use an image that contains it, or try the run with `--mock-agents`.',
  ),
  'agent/no-output': defineAgentCode(
    'An agent ended without a last message and without its output file.',
    'Ask for an answer in the `prompt`, or set `output_file` to the file that the agent writes.',
  ),
  'agent/budget-turns': defineAgentCode(
    'An agent was stopped because it made more calls of the model than its budget allows.',
    'Raise `max_turns` of its `budget`, or divide the work among several stages.',
  ),
  'agent/budget-tokens': defineAgentCode(
    'An agent was stopped because it used more tokens than its budget allows.',
    'Raise `max_tokens` of its `budget`, or divide the work among several stages.',
  ),
  'agent/budget-cost': defineAgentCode(
    'An agent was stopped because it cost more than its budget allows.',
    'Raise `max_cost_usd` of its `budget`, or divide the work among several stages.',
  ),
  'agent/budget-unknown': defineAgentCode(
    'An agent with a budget was stopped because its usage could no longer be measured, or because its command line has no price for its model.',
    'If the message names a model, set `price` in `llm`. If it names `max_output_mb`, raise it. Otherwise check whether the agent killed processes in its VM or removed its session file.',
  ),
  'run/budget-turns': defineAgentCode(
    'Agents of a run made as many calls of the model as the budget of the run allows. Agents that still ran were stopped, and no other agent starts.',
    'Raise `max_turns` in `budget` at the top level of the spec, or divide the work among several runs.',
  ),
  'run/budget-tokens': defineAgentCode(
    'Agents of a run used as many tokens as the budget of the run allows. Agents that still ran were stopped, and no other agent starts.',
    'Raise `max_tokens` in `budget` at the top level of the spec, or divide the work among several runs.',
  ),
  'run/budget-cost': defineAgentCode(
    'Agents of a run cost as much as the budget of the run allows. Agents that still ran were stopped, and no other agent starts.',
    'Raise `max_cost_usd` in `budget` at the top level of the spec, or divide the work among several runs.',
  ),
  'skill/asks-person': defineAgentCode(
    'A step of the step machine that a stage runs is for a person, but only agents can answer the steps of a stage.',
    'Ask people with an approval before or after the stage, or run the step machine as a separate session: `voidbox session start`.',
  ),
  'skill/answers-refused': defineAgentCode(
    'The step machine that a stage runs refused several answers of the agent to one step.',
    'Read the rejected answers and the reasons with `voidbox logs RUN`. The schema of the step may require more than its prompt asks for.',
  ),
  'skill/too-many-prompts': defineAgentCode(
    'The step machine that a stage runs asked the agent more questions than a stage allows.',
    'Set `maxVisits` on the steps of its cycles, or divide the work among several stages.',
  ),
} as const satisfies Record<string, ErrorCodeInfo>;

function defineAgentCode<S extends string, R extends string>(
  summary: S,
  remedy: R,
): { readonly kind: 'outcome'; readonly retry: 'never'; readonly summary: S; readonly remedy: R } {
  return { kind: 'outcome', retry: 'never', summary, remedy };
}
