import type { Rule } from '../rule.ts';
import { KNOWN_TOOLS } from '../tool-names.ts';

export const unknownToolNames = {
  code: 'unknown-tool-names',
  severity: 'warning',
  about: '`host.toolsAvailable.includes(…)` names a tool that no known host has',
  remedy: 'Correct the name.',
  check: {
    source({ sources, prompts }, tell) {
      for (const { step, prompt } of prompts) {
        for (const { tool, node } of prompt.questions) {
          // The tools of MCP servers depend on the user's installation.
          if (KNOWN_TOOLS.has(tool) || tool.startsWith('mcp__')) continue;
          const like = [...KNOWN_TOOLS].find((known) => plain(known) === plain(tool));
          tell(sources.placeOf(node), `No known host has a tool "${tool}".`, {
            ...(step === null ? {} : { step }),
            ...(like === undefined ? {} : { remedy: `Did you mean "${like}"?` }),
            once: tool,
          });
        }
      }
    },
  },
} as const satisfies Rule;

function plain(tool: string): string {
  return tool.replace(/[_-]/g, '').toLowerCase();
}
