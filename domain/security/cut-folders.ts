/** Where Voidbox is installed is no part of what went wrong: histories and their readers see names of files, not folders. */

/** A frame of a stack trace; folders may have any character in them. */
const FRAME_FOLDER = /^(\s+at .*?[\s(])(?:file:\/\/)?\/.*\//gm;
const SOURCE_FOLDER = /(?:file:\/\/)?\/(?:[^\s'"`():/]+\/)+(?=[^\s'"`():/]+\.(?:[cm]?[jt]s|json|node)\b)/g;

/** The text with each source file and each frame of a stack trace by its name alone. */
export function cutFolders(text: string): string {
  return text.replace(FRAME_FOLDER, '$1').replace(SOURCE_FOLDER, '');
}
