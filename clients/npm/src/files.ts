import { invalid, isObject, type Json, number, text } from "./errors.js";

/** A file of a workspace. */
export interface WorkspaceFile {
  /** Within the workspace, without a leading slash. */
  path: string;
  /** Bytes. */
  size: number;
  /** `sha256:<hex>` of the content; undefined in the list of a running client. */
  digest: string | undefined;
}

/** A file that was added, changed or removed. */
export interface FileChange {
  /** Within the workspace, without a leading slash. */
  path: string;
  change: "added" | "changed" | "removed";
  /** Bytes; undefined for a removed file and a link. */
  size: number | undefined;
  /** `sha256:<hex>` of the content; undefined for a removed file and a link. */
  digest: string | undefined;
}

/** Changes in a workspace, by a call or between snapshots. Paths are untrusted, because tools choose them. */
export interface WorkspaceChanges {
  /** Name of the workspace. */
  name: string;
  /** The first 100, sorted by path. */
  changes: FileChange[];
  /** Number of changed files that are not in `changes`. */
  more: number;
  /** Reason why the changes are unknown; undefined if they are known. */
  problem: string | undefined;
}

/** A snapshot of the files of a workspace. */
export interface Snapshot {
  id: string;
  /** RFC 3339. */
  createdAt: string;
  /** Number of files, folders and links. */
  files: number;
  bytes: number;
}

/** A workspace, with its use and its quota. */
export interface WorkspaceInfo {
  name: string;
  /** RFC 3339. */
  createdAt: string;
  /** RFC 3339. */
  usedAt: string;
  /** Number of files, folders and links. */
  files: number;
  /** Bytes of the files. */
  bytes: number;
  snapshotCount: number;
  snapshotBytes: number;
  quotaFiles: number;
  /** Maximum of `bytes` and `snapshotBytes` together. */
  quotaBytes: number;
}

/** As the program checks it. No path matches. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Returns the name of a workspace or snapshot. Throws if it is not valid. */
export function checkedName(name: unknown, what: "workspace" | "snapshot"): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  const rule = "it has 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit";
  throw invalid("workspace_name_invalid", `cannot use ${shown(name)} as the name of a ${what}: ${rule}`);
}

export function badPath(path: unknown, why: string) {
  return invalid("workspace_path_invalid", `cannot use ${shown(path)} as the path of a file: ${why}`);
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 100)) : `a ${typeof value}`;
}

export function fileOf(facts: Json): WorkspaceFile {
  return { path: String(facts["path"]), size: number(facts["size"]) ?? 0, digest: text(facts["digest"]) };
}

export function changesOf(name: string, facts: Json): WorkspaceChanges {
  const changes = objects(facts["files"]).map((file) => ({
    path: String(file["path"]),
    change: file["change"] as FileChange["change"],
    size: number(file["size"]),
    digest: text(file["digest"]),
  }));
  return { name, changes, more: number(facts["more"]) ?? 0, problem: text(facts["problem"]) };
}

export function snapshotOf(facts: Json): Snapshot {
  const usage = object(facts["usage"]);
  return {
    id: String(facts["id"]),
    createdAt: String(facts["created_at"]),
    files: number(usage["files"]) ?? 0,
    bytes: number(usage["bytes"]) ?? 0,
  };
}

export function infoOf(facts: Json): WorkspaceInfo {
  const [usage, quota] = [object(facts["usage"]), object(facts["quota"])];
  return {
    name: String(facts["name"]),
    createdAt: String(facts["created_at"]),
    usedAt: String(facts["used_at"]),
    files: number(usage["files"]) ?? 0,
    bytes: number(usage["bytes"]) ?? 0,
    snapshotCount: number(facts["snapshot_count"]) ?? 0,
    snapshotBytes: number(facts["snapshot_bytes"]) ?? 0,
    quotaFiles: number(quota["files"]) ?? 0,
    quotaBytes: number(quota["bytes"]) ?? 0,
  };
}

export function objects(list: unknown): Json[] {
  return Array.isArray(list) ? list.filter(isObject) : [];
}

function object(value: unknown): Json {
  return isObject(value) ? value : {};
}
