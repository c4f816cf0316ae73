import type { Place } from './reply.ts';

/** Matches `at name (/home/ada/spec.ts:3:5)`, with the path or its URL. */
const FRAME = /^\s+at (?:.*\()?(?:file:\/\/)?(\/.*):(\d+):(\d+)\)?$/;

/**
 * Finds the call in the author's own code: the first frame that is in no package. If all frames are in packages, the
 * first frame.
 * @param isOwn  frames of Voidbox, which are left out
 */
export function placeInStack(stack: string, isOwn: (file: string) => boolean): Place | null {
  const frames = stack.split('\n').flatMap((line): Place[] => {
    const [, file, lineNumber, column] = FRAME.exec(line) ?? [];
    return file === undefined || isOwn(file)
      ? []
      : [{ file: decodePath(file), line: Number(lineNumber), column: Number(column) }];
  });
  return frames.find(({ file }) => !file.includes('/node_modules/')) ?? frames[0] ?? null;
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
