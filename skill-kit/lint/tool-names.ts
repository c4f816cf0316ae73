/** Finds names of hosts' tools in a text, and distinguishes them from ordinary words with the same spelling. */
import { HOST_TOOLS } from '../prompt/agent-hosts.ts';
import { PRIMITIVES } from '../prompt/primitives.ts';

export interface ToolMention {
  readonly tool: string;
  /** The index of the name in the text, in UTF-16 units. */
  readonly index: number;
}

/** Every tool of every host, and those that primitives know besides. */
export const KNOWN_TOOLS: ReadonlySet<string> = new Set([
  ...Object.values(HOST_TOOLS).flat(),
  ...Object.values(PRIMITIVES).flatMap(({ tools }) => tools),
]);

/**
 * `apply_patch`, `TodoWrite`: a text with such a name means the tool. `plan`, `Agent`, `web-search` are words as well.
 */
const isUnmistakable = (tool: string): boolean => /_|[a-z][A-Z]/.test(tool);

const alternatives = (tools: readonly string[]): string => tools.toSorted((a, b) => b.length - a.length).join('|');
const unmistakable = alternatives([...KNOWN_TOOLS].filter(isUnmistakable));
const words = alternatives([...KNOWN_TOOLS].filter((tool) => !isUnmistakable(tool)));
/** In a path or a longer name it is something else. */
const BEFORE = String.raw`(?<![\w\-/.\\@#$])`;
const AFTER = String.raw`(?![\w\-/\\]|\.\w|\()`;
const QUOTE = '[`"\'“‘*]+';
const END_QUOTE = '[`"\'”’*]+';
const MENTIONS = new RegExp(
  [
    `${BEFORE}(?<plain>${unmistakable})${AFTER}`,
    // "the `plan` tool", "the tool `plan`"
    `${QUOTE}(?<quoted>${words})${END_QUOTE}\\s+tools?\\b`,
    `\\btools?\\s+(?:called\\s+|named\\s+)?${QUOTE}(?<after>${words})${END_QUOTE}`,
    // "use the Bash tool"
    `\\b(?:[Uu]s(?:e|ing)|[Cc]all(?:ing)?|[Ii]nvok(?:e|ing)|[Ww]ith|[Vv]ia)\\s+(?:the\\s+|your\\s+)(?<spoken>${words})\\s+tool\\b`,
  ].join('|'),
  'gd',
);

/** In the order of the text, each tool once. */
export function toolsNamedIn(text: string): readonly ToolMention[] {
  const found = new Map<string, ToolMention>();
  for (const { indices } of text.matchAll(MENTIONS)) {
    for (const span of Object.values(indices?.groups ?? {})) {
      if (span === undefined) continue;
      const tool = text.slice(...span);
      if (!found.has(tool)) found.set(tool, { tool, index: span[0] });
    }
  }
  return [...found.values()];
}
