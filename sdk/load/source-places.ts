import { Problems } from '../../domain/language/text/diagnostics.ts';
import { readSource } from '../../domain/language/text/source.ts';
import type { Position, TreeNode } from '../../domain/language/text/tree.ts';
import type { Place } from './reply.ts';

/**
 * Converts positions in the text that a definition makes. Diagnostics point into this text, which the author has not
 * seen.
 * @param stages  where the steps or boxes were made, in the order of the text
 * @returns for a position in the text, the call that made the step or box there; null outside of them
 */
export function placesInSource(
  source: string,
  stages: readonly (Place | null)[],
): (position: Position) => Place | null {
  const lines = stageLines(readSource(source, new Problems('')));
  return ({ line }) => stages[lines.findIndex(({ begin, end }) => begin <= line && line <= end)] ?? null;
}

interface Lines {
  readonly begin: number;
  /** Its last line with content. */
  readonly end: number;
}

/** The lines of each step or box, in the order of the text; steps of parts come first. */
function stageLines(root: TreeNode | null): readonly Lines[] {
  const parts = child(root, 'parts');
  const bodies = parts?.kind === 'map' ? [...parts.entries.values()].map(({ value }) => value) : [];
  return [...bodies, root].flatMap(linesIn);
}

function linesIn(body: TreeNode | null): readonly Lines[] {
  const section = child(body, 'workflow') ?? child(body, 'pipeline');
  const list = child(section, 'steps') ?? child(section, 'boxes');
  return list?.kind === 'list' ? list.items.map((item) => ({ begin: item.at.line, end: lastLine(item) })) : [];
}

function lastLine(node: TreeNode): number {
  switch (node.kind) {
    case 'scalar':
      return node.at.line;
    case 'list':
      return Math.max(node.at.line, ...node.items.map(lastLine));
    case 'map':
      return Math.max(
        node.at.line,
        ...[...node.entries.values()].map(({ keyAt, value }) => Math.max(keyAt.line, lastLine(value))),
      );
  }
}

function child(node: TreeNode | null, key: string): TreeNode | null {
  return node?.kind === 'map' ? (node.entries.get(key)?.value ?? null) : null;
}
