/* web.h - the web page that the server sends for "/": a chat and a view of the server's figures.
 * The files of the page are plain HTML, CSS and JavaScript modules without a framework. The program
 * contains the files (web.def). The page requests nothing from other hosts.
 *
 *   index.html  the elements                store.js     conversations and settings in the browser
 *   style.css   their style                  client.js    requests to the server
 *   app.js      chat, and actions of buttons       markdown.js  text of answers -> elements
 *   server.js   figures of /metrics         dom.js       creation of elements */
#ifndef QUOTH_WEB_H
#define QUOTH_WEB_H

#include <stdbool.h>
#include <stddef.h>

/* A file of the page. All pointers are static. */
struct web_file {
    const char *name, *type; /* name in the folder, and media type */
    const char *data;        /* content [n] */
    size_t n;
};

/* Set *f to the file of that name; "": the page itself. Return false if none. Any
 * thread. */
bool web_find(const char *name, struct web_file *f);

#endif
