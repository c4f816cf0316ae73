/**
 * Removes the folder where Voidbox is installed, which does not explain a failure. Histories and their readers see only
 * names of files.
 */

/** A frame of a stack trace; folders may have any character in them. */
const FRAME_FOLDER = /^(\s+at .*?[\s(])(?:file:\/\/)?\/.*\//gm;
const SOURCE_FOLDER = /(?:file:\/\/)?\/(?:[^\s'"`():/]+\/)+(?=[^\s'"`():/]+\.(?:[cm]?[jt]s|json|node)\b)/g;

/** Replaces the path of each source file and of each frame of a stack trace by its file name. */
export function cutFolders(text: string): string {
  return text.replace(FRAME_FOLDER, '$1').replace(SOURCE_FOLDER, '');
}
