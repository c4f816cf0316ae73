/** The files of a watched folder that start no run, and the limits of a scan. */
import { countUtf8Bytes } from '../units/utf8.ts';

export const FOLDER_LIMITS = {
  /** The files that a scan looks at. */
  files: 100_000,
  /** All names in the folder and below it that a scan reads. */
  names: 1_000_000,
  /** Folders between the watched one and a file. */
  depth: 16,
  /** The path of a file in the folder. */
  pathBytes: 1_024,
  fileBytes: 1024 ** 3,
  /** The bytes of files that one scan reads; the next scan continues. */
  scanBytes: 4 * 1024 ** 3,
  /** The new deliveries of one scan; the next scan continues. */
  scanDeliveries: 1_000,
} as const;

/** The kinds of entries that match the pattern of a trigger. A folder is refused only if it is too deep. */
export type EntryKind = 'file' | 'link' | 'pipe' | 'socket' | 'device' | 'folder';

export interface FoundFile {
  readonly kind: EntryKind;
  /** The path in the folder. Null: its bytes are not UTF-8. */
  readonly path: string | null;
  readonly pathBytes: number;
  readonly sizeBytes: number;
}

const CONTROL = /[\p{Cc}\u2028\u2029]/u;
/** Control characters and lone surrogates. */
const UNSHOWN = /[\p{Cc}\p{Cs}\u2028\u2029]/gu;

const KINDS: Readonly<Record<Exclude<EntryKind, 'file'>, string>> = {
  link: 'it is a link, and links are not followed',
  pipe: 'it is a named pipe and not a file',
  socket: 'it is a socket and not a file',
  device: 'it is a device and not a file',
  folder: `it is a folder below ${FOLDER_LIMITS.depth} others, and the scan goes no deeper`,
};

/** Returns why a file starts no run; null: it may start one. */
export function findFileProblem({ kind, path, pathBytes, sizeBytes }: FoundFile): string | null {
  if (path === null) return 'its name is not UTF-8';
  if (CONTROL.test(path)) return 'its name has a control character';
  if (pathBytes > FOLDER_LIMITS.pathBytes)
    return `its path has ${pathBytes} bytes; at most ${FOLDER_LIMITS.pathBytes} are allowed`;
  if (kind !== 'file') return KINDS[kind];
  return sizeBytes > FOLDER_LIMITS.fileBytes
    ? `it has ${sizeBytes} bytes; at most ${FOLDER_LIMITS.fileBytes} are allowed`
    : null;
}

/** Returns a path for people and programs: well-formed, of bounded length and without control characters. */
export function showPath(path: string): string {
  const plain = path.replaceAll(UNSHOWN, '\uFFFD');
  if (countUtf8Bytes(plain) <= FOLDER_LIMITS.pathBytes) return plain;
  return `${[...plain].slice(0, FOLDER_LIMITS.pathBytes / 4 - 1).join('')}…`;
}
