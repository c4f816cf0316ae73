import type { Rule } from '../rule.ts';
import { staticTexts } from '../static-prompt.ts';
import { toolsNamedIn } from '../tool-names.ts';

export const noHostToolNames = {
  code: 'no-host-tool-names',
  severity: 'error',
  about: "a prompt names a host's tool without a check that the host has it",
  remedy:
    'Use a primitive (act.*), which each host maps to its own tool, or check host.toolsAvailable.includes(…) first.',
  check: {
    // Prompts that are no functions, where their source was not found.
    step({ step, config: { prompt }, insight }, tell) {
      if (insight.asksOf(step) !== null) return;
      const tools = new Set(staticTexts(prompt).flatMap((text) => toolsNamedIn(text).map(({ tool }) => tool)));
      for (const tool of tools) tell(messageOf(step, tool), { step });
    },
    source({ sources, prompts }, tell) {
      for (const { step, prompt } of prompts) {
        for (const { tool, node, offset } of prompt.mentions)
          tell(sources.placeOf(node, offset), messageOf(step, tool), {
            ...(step === null ? {} : { step }),
            once: tool,
          });
      }
    },
  },
} as const satisfies Rule;

function messageOf(step: string | null, tool: string): string {
  return `${step === null ? 'A shared step' : `Step "${step}"`} names the tool "${tool}" in its prompt.`;
}
