/** The commands and files of a page, in their order, as a reader types them. */

export type PagePart =
  | { readonly kind: 'file'; readonly path: string; readonly text: string; readonly line: number }
  | { readonly kind: 'run'; readonly commands: readonly string[]; readonly line: number }
  | { readonly kind: 'run-in'; readonly page: string; readonly commands: readonly string[]; readonly line: number }
  | { readonly kind: 'not-run'; readonly why: string; readonly commands: readonly string[]; readonly line: number };

const FENCE = /(?:^<!-- (run|run in: (\S+)|file: (\S+)|not run: ([^\n]+)) -->\n)?^```(\w*)\n([^]*?)^```$/gm;

/**
 * `<!-- run -->` before a block of the console marks commands that run, `<!-- file: NAME -->` a file that they read,
 * `<!-- run in: PAGE -->` commands that another page runs, and `<!-- not run: WHY -->` commands that need what a test
 * lacks.
 * @throws Error for a block of the console without a mark
 */
export function readPageParts(path: string, page: string): readonly PagePart[] {
  return [...page.matchAll(FENCE)].flatMap(({ index, ...groups }): readonly PagePart[] => {
    const line = page.slice(0, index).split('\n').length;
    const [, mark, other, file, why, language, body = ''] = Object.values(groups) as (string | undefined)[];
    if (file !== undefined) return [{ kind: 'file', path: file, text: body, line }];
    if (language !== 'console') return [];
    const commands = body
      .replace(/\\\n/g, '')
      .split('\n')
      .flatMap((each) => /^\$ (.*)$/.exec(each)?.[1] ?? []);
    if (mark === 'run') return [{ kind: 'run', commands, line }];
    if (other !== undefined) return [{ kind: 'run-in', page: other, commands, line }];
    if (why !== undefined) return [{ kind: 'not-run', why, commands, line }];
    throw new Error(
      `${path}:${line}: write <!-- run -->, <!-- run in: PAGE --> or <!-- not run: WHY --> before the block`,
    );
  });
}
